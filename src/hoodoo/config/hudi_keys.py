"""The keys of Apache Hudi 1.2 that hoodoo does not honour, and what it does with each.

A key that hoodoo comes to honour moves: it gets a `Key`, and its name is deleted here. Tests hold
this list against Apache Hudi's own classes.
"""

from __future__ import annotations

from hoodoo.config import table
from hoodoo.config.hudi_services import SERVICES
from hoodoo.config.rule import Kind, Rule, Rules, noted, of_table, only, tuning

OPERATION = "hoodie.datasource.write.operation"
BASE_PATH = "hoodie.base.path"

_WRITE = "hoodie.datasource.write."
_READ = "hoodie.datasource.read."
_NO_CLASS = "hoodoo runs no Java classes"
_NO_KEYS = "an insert looks for no keys: call upsert, which keeps them unique"
_ROWS_SCHEMA = "rows bring their own schema, and the table's grows with it"
_INTERNAL = "Apache Hudi sets this for itself"
# The merge mode decides which of these is used.
_MERGERS = (
    *("", "DefaultSparkRecordMerger", "OverwriteWithLatestSparkRecordMerger"),
    *("HoodieAvroRecordMerger", "HoodieSparkRecordMerger", "OverwriteWithLatestMerger"),
)
_FOR_READS = "hoodoo has arguments for this: as_of, mode, columns, filter; changes(since, until)"

# Whole families, by prefix: settings of other programs, or of what cannot be switched on.
FAMILIES: dict[str, Rule] = {
    **tuning("hoodie.metrics."),
    **tuning("hoodie.metricscompaction."),
    **tuning("hoodie.aws."),
    **tuning("hoodie.gcp."),
    **tuning("hoodie.datahub."),
    **tuning("hoodie.streamer."),
    **tuning("hoodie.deltastreamer."),
    **tuning("hoodie.write.lock.dynamodb."),
    **tuning("hoodie.write.lock.hivemetastore."),
    **tuning("hoodie.index.hbase."),
}

_OF_TABLE: tuple[Rules, ...] = (
    {OPERATION: Rule(Kind.TABLE, reason="must name the call that is made")},
    {BASE_PATH: Rule(Kind.TABLE, reason="must be the path of the table")},
    of_table(table.NAME, f"{_WRITE}table.name"),
    of_table(table.TYPE, f"{_WRITE}table.type {_WRITE}storage.type"),
    of_table(table.VERSION, "hoodie.write.table.version"),
    of_table(table.RECORD_KEY_FIELDS, f"{_WRITE}recordkey.field"),
    of_table(table.PARTITION_FIELDS, f"{_WRITE}partitionpath.field"),
    of_table(table.ORDERING_FIELDS, f"{_WRITE}precombine.field hoodie.payload.ordering.field"),
    of_table(table.MERGE_MODE, "hoodie.write.record.merge.mode"),
    of_table(
        table.MERGE_STRATEGY,
        f"hoodie.write.record.merge.strategy.id {_WRITE}record.merger.strategy",
    ),
    of_table(table.BASE_FILE_FORMAT, "hoodie.base.file.format hoodie.table.ro.file.format"),
)

# Keys that change what a write means, each with the values that say what hoodoo does.
_ONLY: tuple[Rules, ...] = (
    only(f"{_WRITE}insert.drop.duplicates", "false", _NO_KEYS),
    only("hoodie.datasource.insert.dup.policy", "none", _NO_KEYS),
    only("hoodie.merge.allow.duplicate.on.inserts", "true", _NO_KEYS),
    only(f"{_WRITE}partitions.to.delete", "", "call delete_partitions([...])"),
    only(
        "hoodie.datasource.overwrite.mode",
        "dynamic",
        "insert_overwrite replaces the partitions that occur in the rows; to replace all, call "
        "insert_overwrite_table",
    ),
    only(
        f"{_WRITE}schema.allow.auto.evolution.column.drop",
        "false",
        "columns that rows lack stay in the table",
    ),
    only(
        "hoodie.write.set.null.for.missing.columns",
        "true",
        "columns that rows lack are null in them; only those that must not be null are asked for",
    ),
    only("hoodie.schema.on.read.enable", "false", "columns are matched by name"),
    only("hoodie.avro.schema", (), _ROWS_SCHEMA),
    only("hoodie.write.schema", (), _ROWS_SCHEMA),
    only("hoodie.write.partial.update.schema", "", "rows are written whole"),
    only(
        "hoodie.write.record.merge.custom.implementation.classes",
        _MERGERS,
        _NO_CLASS,
    ),
    only(f"{_WRITE}record.merger.impls", _MERGERS, _NO_CLASS),
    only("hoodie.write.merge.handle.class", "FileGroupReaderBasedMergeHandle", _NO_CLASS),
    only("hoodie.write.concat.handle.class", "HoodieConcatHandle", _NO_CLASS),
    only("hoodie.writestatus.class", "WriteStatus", _NO_CLASS),
    only("hoodie.index.class", "", f"{_NO_CLASS}: hoodie.index.type names an index"),
    only("hoodie.client.init.callback.classes", "", _NO_CLASS),
    only("hoodie.precommit.validators", "", _NO_CLASS),
    only("hoodie.prewrite.validators", "", _NO_CLASS),
    only("hoodie.fileid.prefix.provider.class", "RandomFileIdPrefixProvider", _NO_CLASS),
    only("hoodie.avro.write.support.class", "HoodieAvroWriteSupport", _NO_CLASS),
    only("hoodie.parquet.spark.row.write.support.class", "HoodieRowParquetWriteSupport", _NO_CLASS),
    only(
        "hoodie.parquet.flink.rowdata.write.support.class",
        "HoodieRowDataParquetWriteSupport",
        _NO_CLASS,
    ),
    only("hoodie.parquet.write.config.injector.class", "", _NO_CLASS),
    only("hoodie.storage.class", "HoodieHadoopStorage", _NO_CLASS),
    only("hoodie.io.factory.class", "HoodieHadoopIOFactory", _NO_CLASS),
    only("hoodie.storage.layout.partitioner.class", ("", "SparkBucketIndexPartitioner"), _NO_CLASS),
    only(
        "hoodie.storage.layout.type",
        ("default", "bucket"),
        "hoodie.index.type=BUCKET makes buckets, all else the default",
    ),
    only(
        "hoodie.bulkinsert.user.defined.partitioner.class",
        "",
        f"{_NO_CLASS}: hoodie.bulkinsert.sort.mode sorts",
    ),
    only(
        "hoodie.bulkinsert.user.defined.partitioner.sort.columns",
        "",
        "hoodie.bulkinsert.sort.mode sorts, by partition and key",
    ),
    only("hoodie.bulkinsert.overwrite.operation.type", "", "call insert_overwrite"),
    only("hoodie.bucket.index.partition.expressions", "", "all partitions have as many buckets"),
    only("hoodie.bucket.index.partition.rule.type", "regex", "all partitions have as many buckets"),
    only(
        f"{_WRITE}keygenerator.consistent.logical.timestamp.enabled",
        "false",
        "it would change the record keys of timestamps",
    ),
    only("hoodie.assume.date.partitioning", "false", "the table's partition fields decide"),
    only("hoodie.table.format", "native", "hoodoo writes tables of Apache Hudi's own format"),
    only("hoodie.table.log.file.format", "hoodie_log", "logs have one format"),
    only("hoodie.table.rt.file.format", "hoodie_log", "logs have one format"),
    only("hoodie.table.multiple.base.file.formats.enable", "false", "base files are Parquet"),
    only("hoodie.table.initial.version", ("9", "nine"), "new tables have version 9"),
    only("hoodie.archivelog.folder", "archived", "old timelines only"),
    only("hoodie.partition.metafile.use.base.format", "false", "they are properties files"),
    only("hoodie.parquet.outputtimestamptype", "timestamp_micros", "the column's type decides"),
    only("hoodie.parquet.write.utc-timezone.enabled", "true", "timestamps are written in UTC"),
    only("hoodie.parquet.writelegacyformat.enabled", "false", "Parquet's present types are used"),
    only(
        "hoodie.allow.operation.metadata.field",
        "false",
        "hoodoo writes no _hoodie_operation column",
    ),
    only(
        "hoodie.allow.empty.commit", "true", "every write that succeeds is an instant, rows or not"
    ),
    only("hoodie.auto.commit", "true", "a write commits, or fails and is rolled back"),
    only(f"{_WRITE}commitmeta.key.prefix", "_", "no options go into commits"),
    only("hoodie.write.rolling.metadata.keys", "", "no options go into commits"),
    only("hoodie.write.track.event.time.watermark", "false", "commits hold no event times"),
    only(
        "hoodie.write.concurrency.schema.conflict.resolution.enable",
        "true",
        "schemas that contradict each other are always a conflict",
    ),
    only("hoodie.rollback.instant.backup.enabled", "false", "rollbacks keep no copies"),
    only("hoodie.internal.schema", (), _INTERNAL),
    only("hoodie.internal.sql.merge.into.writes", "false", _INTERNAL),
    only("hoodie.internal.write.schema.canonicalize", "true", _INTERNAL),
    only("hoodie.static.overwrite.partition.paths", "", _INTERNAL),
    only("hoodie.bulkinsert.schema.ddl", (), _INTERNAL),
    only("_.hoodie.allow.multi.write.on.same.instant", "false", _INTERNAL),
)

_READS: tuple[Rules, ...] = (
    noted("hoodie.datasource.", "query.type view.type", _FOR_READS, "snapshot"),
    noted("hoodie.datasource.", "query.incremental.format", _FOR_READS, "latest_state"),
    noted("hoodie.datasource.", "merge.type", _FOR_READS, "payload_combine"),
    noted(
        _READ,
        "begin.instanttime end.instanttime incr.filters incr.path.glob paths",
        _FOR_READS,
        "",
    ),
    tuning(
        _READ,
        "create.filesystem.relation extract.partition.values.from.path "
        "file.index.list.partitions.from.catalog file.index.listing.mode "
        "file.index.listing.partition-path-prefix.analysis.enabled "
        "file.index.optimize.listing.using.path.filter incr.fallback.fulltablescan.enable "
        "incr.skip_cluster incr.skip_compact incr.table.version "
        "partition.value.extractor.enabled schema.use.end.instanttime streaming.table.version "
        "table.valued.function.filesystem.relation.subpath "
        "table.valued.function.timeline.relation table.valued.function.timeline.relation.archived",
    ),
    tuning(
        "hoodie.",
        "bucket.index.query.pruning cdc.file.group.iterator.memory.spill.bytes "
        "datasource.streaming.startOffset file.group.reader.enabled "
        "file.index.cache.spillable.mem file.index.cache.use.spillable.map file.index.enable "
        "merge.use.record.positions read.blob.inline.mode read.timeline.holes.resolution.policy",
    ),
)

# What hoodoo does without, does always, or does in its own way, with the same rows at the end.
_TUNING: tuple[Rules, ...] = (
    tuning(
        "hoodie.",
        "auto.adjust.lock.configs avro.schema.external.transformation "
        "avro.schema.externalTransformation avro.schema.validate "
        "block.writes.on.speculative.execution combine.before.delete "
        "common.diskmap.compression.enabled common.spillable.diskmap.type "
        "consistency.check.enabled consistency.check.initial_interval_ms "
        "consistency.check.max_checks consistency.check.max_interval_ms "
        "copyonwrite.insert.auto.split copyonwrite.insert.split.size delete.shuffle.parallelism "
        "fail.job.on.duplicate.data.file.detection file.listing.parallelism "
        "finalize.write.parallelism fs.atomic_creation.support insert.shuffle.parallelism "
        "merge.data.validation.enabled merge.small.file.group.candidates.limit "
        "optimistic.consistency.guard.sleep_time_ms payload.event.time.field "
        "precommit.validators.equality.sql.queries precommit.validators.failure.policy "
        "precommit.validators.inequality.sql.queries "
        "precommit.validators.single.value.sql.queries "
        "precommit.validators.streaming.offset.tolerance.percentage "
        "record.size.estimation.threshold record.size.estimator.average.metadata.size "
        "record.size.estimator.class release.resource.on.completion.enable "
        "rollback.avoid.duplicate.plan rollback.instant.backup.dir rollback.parallelism "
        "rollback.using.markers sensitive.config.keys skip.default.partition.validation "
        "spark.polaris.catalog.class time.generator.max_expected_clock_skew_ms "
        "time.generator.type upsert.shuffle.parallelism",
    ),
    tuning(
        "_hoodie.",
        "optimistic.consistency.guard.enable record.size.estimator.max.commits "
        "time.generator.reuse.enable",
    ),
    tuning(
        "hoodie.bloom.index.",
        "bucketized.checking bucketized.checking.enable.dynamic.parallelism "
        "fileid.key.sorting.enable filter.type input.storage.level keys.per.bucket parallelism "
        "update.partition.path use.caching use.treebased.filter",
    ),
    tuning(
        "hoodie.bucket.index.",
        "max.num.buckets merge.threshold min.num.buckets remote.partitioner.enable split.threshold",
    ),
    tuning("hoodie.bulkinsert.sort.suffix.record_key"),
    # What a missing column means is said by hoodie.write.set.null.for.missing.columns.
    tuning(_WRITE, "reconcile.schema row.writer.enable"),
    tuning(
        f"{_WRITE}streaming.",
        "checkpoint.identifier disable.compaction ignore.failed.batch retry.count "
        "retry.interval.ms",
    ),
    tuning("hoodie.embed.timeline.server.", "async gzip reuse.enabled threads"),
    tuning(
        "hoodie.filesystem.",
        "operation.retry.enable operation.retry.exceptions operation.retry.initial_interval_ms "
        "operation.retry.max_interval_ms operation.retry.max_numbers remote.backup.view.enable",
    ),
    tuning(
        "hoodie.filesystem.view.",
        "incr.timeline.sync.enable remote.host remote.port remote.retry.enable "
        "remote.retry.exceptions remote.retry.initial_interval_ms remote.retry.max_interval_ms "
        "remote.retry.max_numbers remote.timeout.secs rocksdb.base.path secondary.type "
        "spillable.bootstrap.base.file.mem.fraction spillable.clustering.mem.fraction "
        "spillable.compaction.mem.fraction spillable.dir spillable.log.compaction.mem.fraction "
        "spillable.mem spillable.replaced.mem.fraction type",
    ),
    tuning("hoodie.global.", "index.reconcile.parallelism simple.index.parallelism"),
    tuning(
        "hoodie.hfile.",
        "block.cache.enabled block.cache.size block.cache.ttl.minutes block.size "
        "compression.algorithm max.file.size writes.allow.duplicates",
    ),
    tuning(
        "hoodie.lance.",
        "max.file.size read.allocator.size.bytes read.metadata.allocator.size.bytes "
        "write.allocator.size.bytes write.flush.byte.watermark",
    ),
    tuning("hoodie.logfile.", "data.block.max.size max.size to.parquet.compression.ratio"),
    tuning("hoodie.markers.delete.parallelism"),
    tuning(
        "hoodie.memory.",
        "compaction.fraction compaction.max.size dfs.buffer.max.size merge.fraction "
        "merge.max.size spillable.map.path writestatus.failure.fraction",
    ),
    tuning("hoodie.orc.", "block.size compression.codec max.file.size stripe.size"),
    tuning("hoodie.parquet.", "compression.ratio field_id.write.enabled"),
    tuning("hoodie.simple.index.", "input.storage.level parallelism use.caching"),
    # Of Spark SQL's statements, which hoodoo does not have.
    tuning(
        "hoodie.",
        "spark.sql.insert.into.operation spark.sql.merge.into.partial.updates "
        "spark.sql.optimized.writes.enable sql.bulk.insert.enable sql.insert.mode",
    ),
    tuning(
        "hoodie.write.",
        "application.id auto.upgrade buffer.limit.bytes buffer.record.cache.limit "
        "buffer.record.sampling.rate can.ignore.post.commit.failures complex.keygen.new.encoding "
        "complex.keygen.validation.enable executor.disruptor.buffer.limit.bytes "
        "executor.disruptor.wait.strategy executor.type ignore.failed merge.handle.fallback "
        "record.positions rolling.metadata.timeline.lookback.commits status.storage.level "
        "tagged.record.storage.level",
    ),
    tuning("hoodie.post.commit.failures.ignored"),
    tuning(
        "hoodie.write.lock.",
        "client.num_retries client.wait_time_ms_between_retry heartbeat_interval_ms "
        "max_wait_time_ms_between_retry num_retries",
    ),
)

GROUPS: tuple[Rules, ...] = (*_OF_TABLE, *_ONLY, *SERVICES, *_READS, *_TUNING)
RULES: dict[str, Rule] = {name: rule for group in GROUPS for name, rule in group.items()}
