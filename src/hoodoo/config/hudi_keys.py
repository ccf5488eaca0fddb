"""The keys of Apache Hudi 1.2 that hoodoo does not honour, and what it does with each.

A key that hoodoo comes to honour moves: it gets a `Key`, and its name is deleted here. Tests hold
this list against Apache Hudi's own classes.

An `OptionRule` is what hoodoo does with such a key. Keys of services that hoodoo does not have come
first: the switches, then what tunes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from hoodoo.config import table
from hoodoo.config.key import Key

# -- rules -----------------------------------------------------------------------------------------


class OptionRuleKind(Enum):
    """How an option that is not honoured is met."""

    TUNING = "tuning"
    """Speed, memory, or a feature that is off: no value changes what is written."""
    NOTED = "noted"
    """Has no effect, which the user should know: a warning when the table is opened."""
    ONLY = "only"
    """Changes what a write means: values other than those hoodoo acts by fail the write."""
    NOT_BUILT = "not built"
    """Switches on what hoodoo does not have yet: that fails the write."""
    TABLE = "table"
    """Said by the table, or by the call: a value that says something else fails the write."""


@dataclass(frozen=True, slots=True)
class OptionRule:
    """What becomes of one key."""

    kind: OptionRuleKind
    accepts: tuple[str, ...] = ()
    """Values that are fine, in any case; "" is an empty text. Class names lack their package."""
    reason: str = ""
    """Why others are not, and what to use instead."""
    key: Key[Any] | None = None
    """Of `Kind.TABLE`: the property of the table that says the same."""

    def allows(self, value: str) -> bool:
        """Whether hoodoo does what this value asks for, as far as the value alone tells."""
        if self.kind in (OptionRuleKind.TUNING, OptionRuleKind.TABLE):
            return True
        fine = {each.lower() for each in self.accepts}
        plain = value.strip().lower()
        classes = {each.rpartition(".")[2].strip() for each in plain.split(",")}
        return plain in fine or classes <= fine


Rules = Mapping[str, OptionRule]


def tuning(prefix: str, names: str = "") -> Rules:
    """Keys that are taken without a word: names below a prefix, or one whole name."""
    return _with_prefix(prefix, names, OptionRule(OptionRuleKind.TUNING))


def no_effect(prefix: str, names: str, reason: str, *accepts: str) -> Rules:
    """Keys without effect that are worth a warning."""
    return _with_prefix(prefix, names, OptionRule(OptionRuleKind.NOTED, accepts, reason))


def fixed_value(name: str, accepts: str | tuple[str, ...], reason: str) -> Rules:
    """A key that changes what a write means, and the values of it that hoodoo acts by."""
    values = (accepts,) if isinstance(accepts, str) else accepts
    return {name: OptionRule(OptionRuleKind.ONLY, values, reason)}


def not_implemented(what: str, names: str, off: str = "false") -> Rules:
    """Switches of something to come."""
    return _with_prefix(
        "", names, OptionRule(OptionRuleKind.NOT_BUILT, (off,), f"hoodoo has no {what} yet")
    )


def same_as_table_property(key: Key[Any], names: str) -> Rules:
    """Names of writers for what is a property of the table."""
    return _with_prefix(
        "", names, OptionRule(OptionRuleKind.TABLE, reason=f"says what {key.name} says", key=key)
    )


def _with_prefix(prefix: str, names: str, rule: OptionRule) -> Rules:
    return {prefix + name: rule for name in names.split()} if names else {prefix: rule}


# -- services that hoodoo does not have ------------------------------------------------------------


SERVICES: tuple[Rules, ...] = (
    tuning("hoodie.datasource.compaction.async.enable"),
    tuning("hoodie.compact.merge.handle.class"),
    tuning("hoodie.compaction.", "lazy.block.read plan.generator reverse.log.read"),
    tuning(
        "hoodie.clustering.",
        "enable.expirations execution.strategy.class expiration.threshold.mins "
        "fail.on.pending.ingestion.during.conflict.resolution group.read.parallelism "
        "max.parallelism plan.generation.use.local.engine.context "
        "plan.strategy.binary.copy.schema.evolution.enable plan.strategy.class "
        "plan.strategy.earliest.commit.to.cluster plan.strategy.file.slices.sort.by "
        "rollback.pending.replacecommit.on.conflict updates.strategy",
    ),
    tuning(
        "hoodie.layout.optimize.",
        "build.curve.sample.size curve.build.method data.skipping.enable enable",
    ),
    not_implemented("cleaning beside writes", "hoodie.clean.async.enabled hoodie.clean.async"),
    not_implemented("cleaning before writes", "hoodie.prewrite.cleaner.policy", off="none"),
    tuning(
        "hoodie.clean.",
        "delete.bootstrap.base.file multiple.enabled allow.multiple "
        "optimize.using.local.engine.context parallelism",
    ),
    tuning("hoodie.cleaner.", "delete.bootstrap.base.file parallelism"),
    tuning("hoodie.write.empty.clean.interval.hours"),
    not_implemented("archival beside writes", "hoodie.archive.async"),
    tuning(
        "hoodie.",
        "archive.delete.parallelism commits.archival.batch fail.on.timeline.archiving",
    ),
    not_implemented(
        "index of that kind",
        "hoodie.metadata.record.level.index.enable hoodie.metadata.index.expression.enable "
        "hoodie.metadata.index.secondary.enable",
    ),
    tuning("hoodie.metadata.", "index.partition.stats.enable streaming.write.enabled"),
    not_implemented(
        "index of that kind",
        "hoodie.datasource.write.secondarykey.column hoodie.metadata.index.drop",
        off="",
    ),
    tuning(
        "hoodie.metadata.",
        "auto.delete.partitions auto.initialize bloom.filter.dynamic.max.entries "
        "bloom.filter.enable bloom.filter.fpp bloom.filter.num.entries bloom.filter.type "
        "compact.max.delta.seconds compact.trigger.strategy "
        "derive.from.datatable.clean.policy dir.filter.regex file.cache.max.size.mb "
        "index.bloom.filter.column.list "
        "index.bloom.filter.file.group.count index.bloom.filter.parallelism "
        "index.column.stats.file.group.count index.column.stats.inMemory.projection.threshold "
        "index.column.stats.parallelism "
        "index.column.stats.processing.mode.override index.expression.column "
        "index.expression.file.group.count index.expression.options "
        "index.expression.parallelism index.partition.stats.file.group.count "
        "index.partition.stats.parallelism index.secondary.column index.secondary.parallelism "
        "log.compaction.blocks.threshold log.compaction.enable max.deltacommits.when_pending "
        "max.init.parallelism max.logfile.size max.reader.buffer.size max.reader.memory "
        "metrics.enable optimized.log.blocks.scan.enable "
        "partitioned.record.index.max.filegroup.count "
        "partitioned.record.index.min.filegroup.count range.repartition.random.seed "
        "range.repartition.sampling.fraction range.repartition.target.records.per.partition "
        "record.index.enable.validation.on.initialization record.index.growth.factor "
        "record.index.max.filegroup.size record.level.index.defer.init "
        "record.level.index.max.filegroup.count record.level.index.min.filegroup.count "
        "record.preparation.parallelism repartition.default.partitions "
        "repartition.min.partitions.threshold spillable.map.path "
        "streaming.write.datatable.write.statuses.coalesce.divisor table.service.manager.actions "
        "table.service.manager.enabled write.concurrency.mode "
        "write.fail.on.table.service.failures",
    ),
    tuning("_hoodie.metadata.ignore.spurious.deletes"),
    tuning("hoodie.record.index.", "input.storage.level use.caching"),
    tuning("hoodie.expression.index.", "function range.metadata.storage.level type"),
    tuning("hoodie.", "index.name table.index.defs.path table.secondary.indexes.metadata"),
    tuning("hoodie.table.services.incremental.enabled"),
    tuning("hoodie.fail.writes.on.inline.table.service.exception"),
    not_implemented("table service manager", "hoodie.table.service.manager.enabled"),
    tuning(
        "hoodie.table.service.manager.",
        "actions connection.retries connection.retry.delay.sec connection.timeout.sec "
        "deploy.extra.params deploy.parallelism deploy.queue deploy.resources deploy.username "
        "execution.engine uris",
    ),
    not_implemented("partition TTL", "hoodie.partition.ttl.inline"),
    tuning(
        "hoodie.partition.ttl.",
        "management.strategy.type strategy.class strategy.days.retain "
        "strategy.max.delete.partitions strategy.partition.selected",
    ),
    not_implemented(
        "catalog sync", "hoodie.datasource.hive_sync.enable hoodie.datasource.meta.sync.enable"
    ),
    tuning(
        "hoodie.datasource.hive_sync.",
        "auto_create_database base_file_format batch_num bucket_sync bucket_sync_spec "
        "create_managed_table database filter_pushdown_enabled filter_pushdown_max_size "
        "ignore_exceptions jdbcurl metastore.uris mode omit_metadata_fields "
        "partition_extractor_class partition_fields password recreate_table_on_error "
        "schema_string_length_thresh serde_properties skip_ro_suffix support_timestamp "
        "sync_as_datasource sync_comment table table.strategy table_properties use_jdbc "
        "use_spark_catalog username",
    ),
    tuning("hoodie.datasource.", "meta.sync.base.path meta_sync.condition.sync"),
    tuning("hoodie.", "datasource.partition_extractor_class table.partition_extractor_class"),
    tuning(
        "hoodie.meta.sync.",
        "client.tool.class decode_partition incremental metadata_file_listing "
        "no_partition_metadata sync_snapshot_with_table_name touch.partitions.enabled",
    ),
    tuning("hoodie.meta_sync.", "global.replicate.timestamp spark.version"),
    not_implemented("metaserver", "hoodie.metaserver.enabled"),
    tuning("hoodie.metaserver.", "connect.retries connect.retry.delay uris"),
    not_implemented("error table", "hoodie.errortable.enable"),
    tuning(
        "hoodie.errortable.",
        "base.path insert.shuffle.parallelism source.rdd.persist target.table.name "
        "upsert.shuffle.parallelism validate.recordcreation.enable validate.targetschema.enable "
        "write.class write.failure.strategy write.union.enable",
    ),
    not_implemented("commit callbacks", "hoodie.write.commit.callback.on"),
    tuning(
        "hoodie.write.commit.callback.",
        "class http.api.key http.custom.headers http.timeout.seconds http.url",
    ),
    not_implemented("bootstrap", "hoodie.bootstrap.base.path", off=""),
    tuning(
        "hoodie.bootstrap.",
        "data.queries.only full.input.provider index.class index.enable index.type mode.selector "
        "mode.selector.regex mode.selector.regex.mode parallelism partitionpath.translator.class",
    ),
    tuning("hoodie.table.cdc.supplemental.logging.mode"),
)


# -- all other keys --------------------------------------------------------------------------------


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
FAMILIES: dict[str, OptionRule] = {
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
    {OPERATION: OptionRule(OptionRuleKind.TABLE, reason="must name the call that is made")},
    {BASE_PATH: OptionRule(OptionRuleKind.TABLE, reason="must be the path of the table")},
    same_as_table_property(table.NAME, f"{_WRITE}table.name"),
    same_as_table_property(table.TYPE, f"{_WRITE}table.type {_WRITE}storage.type"),
    same_as_table_property(table.VERSION, "hoodie.write.table.version"),
    same_as_table_property(table.RECORD_KEY_FIELDS, f"{_WRITE}recordkey.field"),
    same_as_table_property(table.PARTITION_FIELDS, f"{_WRITE}partitionpath.field"),
    same_as_table_property(
        table.ORDERING_FIELDS, f"{_WRITE}precombine.field hoodie.payload.ordering.field"
    ),
    same_as_table_property(table.MERGE_MODE, "hoodie.write.record.merge.mode"),
    same_as_table_property(
        table.MERGE_STRATEGY,
        f"hoodie.write.record.merge.strategy.id {_WRITE}record.merger.strategy",
    ),
    same_as_table_property(
        table.BASE_FILE_FORMAT, "hoodie.base.file.format hoodie.table.ro.file.format"
    ),
)

# Keys that change what a write means, each with the values that say what hoodoo does.
_ONLY: tuple[Rules, ...] = (
    fixed_value(f"{_WRITE}insert.drop.duplicates", "false", _NO_KEYS),
    fixed_value("hoodie.datasource.insert.dup.policy", "none", _NO_KEYS),
    fixed_value("hoodie.merge.allow.duplicate.on.inserts", "true", _NO_KEYS),
    fixed_value(f"{_WRITE}partitions.to.delete", "", "call delete_partitions([...])"),
    fixed_value(
        "hoodie.datasource.overwrite.mode",
        "dynamic",
        "insert_overwrite replaces the partitions that occur in the rows; to replace all, call "
        "insert_overwrite_table",
    ),
    fixed_value(
        f"{_WRITE}schema.allow.auto.evolution.column.drop",
        "false",
        "columns that rows lack stay in the table",
    ),
    fixed_value(
        "hoodie.write.set.null.for.missing.columns",
        "true",
        "columns that rows lack are null in them; only those that must not be null are asked for",
    ),
    fixed_value("hoodie.schema.on.read.enable", "false", "columns are matched by name"),
    fixed_value("hoodie.avro.schema", (), _ROWS_SCHEMA),
    fixed_value("hoodie.write.schema", (), _ROWS_SCHEMA),
    fixed_value("hoodie.write.partial.update.schema", "", "rows are written whole"),
    fixed_value(
        "hoodie.write.record.merge.custom.implementation.classes",
        _MERGERS,
        _NO_CLASS,
    ),
    fixed_value(f"{_WRITE}record.merger.impls", _MERGERS, _NO_CLASS),
    fixed_value("hoodie.write.merge.handle.class", "FileGroupReaderBasedMergeHandle", _NO_CLASS),
    fixed_value("hoodie.write.concat.handle.class", "HoodieConcatHandle", _NO_CLASS),
    fixed_value("hoodie.writestatus.class", "WriteStatus", _NO_CLASS),
    fixed_value("hoodie.index.class", "", f"{_NO_CLASS}: hoodie.index.type names an index"),
    fixed_value("hoodie.client.init.callback.classes", "", _NO_CLASS),
    fixed_value("hoodie.precommit.validators", "", _NO_CLASS),
    fixed_value("hoodie.prewrite.validators", "", _NO_CLASS),
    fixed_value("hoodie.fileid.prefix.provider.class", "RandomFileIdPrefixProvider", _NO_CLASS),
    fixed_value("hoodie.avro.write.support.class", "HoodieAvroWriteSupport", _NO_CLASS),
    fixed_value(
        "hoodie.parquet.spark.row.write.support.class", "HoodieRowParquetWriteSupport", _NO_CLASS
    ),
    fixed_value(
        "hoodie.parquet.flink.rowdata.write.support.class",
        "HoodieRowDataParquetWriteSupport",
        _NO_CLASS,
    ),
    fixed_value("hoodie.parquet.write.config.injector.class", "", _NO_CLASS),
    fixed_value("hoodie.storage.class", "HoodieHadoopStorage", _NO_CLASS),
    fixed_value("hoodie.io.factory.class", "HoodieHadoopIOFactory", _NO_CLASS),
    fixed_value(
        "hoodie.storage.layout.partitioner.class", ("", "SparkBucketIndexPartitioner"), _NO_CLASS
    ),
    fixed_value(
        "hoodie.storage.layout.type",
        ("default", "bucket"),
        "hoodie.index.type=BUCKET makes buckets, all else the default",
    ),
    fixed_value(
        "hoodie.bulkinsert.user.defined.partitioner.class",
        "",
        f"{_NO_CLASS}: hoodie.bulkinsert.sort.mode sorts",
    ),
    fixed_value(
        "hoodie.bulkinsert.user.defined.partitioner.sort.columns",
        "",
        "hoodie.bulkinsert.sort.mode sorts, by partition and key",
    ),
    fixed_value("hoodie.bulkinsert.overwrite.operation.type", "", "call insert_overwrite"),
    fixed_value(
        "hoodie.bucket.index.partition.expressions", "", "all partitions have as many buckets"
    ),
    fixed_value(
        "hoodie.bucket.index.partition.rule.type", "regex", "all partitions have as many buckets"
    ),
    fixed_value(
        f"{_WRITE}keygenerator.consistent.logical.timestamp.enabled",
        "false",
        "it would change the record keys of timestamps",
    ),
    fixed_value("hoodie.assume.date.partitioning", "false", "the table's partition fields decide"),
    fixed_value(
        "hoodie.table.format", "native", "hoodoo writes tables of Apache Hudi's own format"
    ),
    fixed_value("hoodie.table.log.file.format", "hoodie_log", "logs have one format"),
    fixed_value("hoodie.table.rt.file.format", "hoodie_log", "logs have one format"),
    fixed_value(
        "hoodie.table.multiple.base.file.formats.enable", "false", "base files are Parquet"
    ),
    fixed_value("hoodie.table.initial.version", ("9", "nine"), "new tables have version 9"),
    fixed_value("hoodie.archivelog.folder", "archived", "old timelines only"),
    fixed_value("hoodie.partition.metafile.use.base.format", "false", "they are properties files"),
    fixed_value(
        "hoodie.parquet.outputtimestamptype", "timestamp_micros", "the column's type decides"
    ),
    fixed_value(
        "hoodie.parquet.write.utc-timezone.enabled", "true", "timestamps are written in UTC"
    ),
    fixed_value(
        "hoodie.parquet.writelegacyformat.enabled", "false", "Parquet's present types are used"
    ),
    fixed_value(
        "hoodie.allow.operation.metadata.field",
        "false",
        "hoodoo writes no _hoodie_operation column",
    ),
    fixed_value(
        "hoodie.allow.empty.commit", "true", "every write that succeeds is an instant, rows or not"
    ),
    fixed_value("hoodie.auto.commit", "true", "a write commits, or fails and is rolled back"),
    fixed_value(f"{_WRITE}commitmeta.key.prefix", "_", "no options go into commits"),
    fixed_value("hoodie.write.rolling.metadata.keys", "", "no options go into commits"),
    fixed_value("hoodie.write.track.event.time.watermark", "false", "commits hold no event times"),
    fixed_value(
        "hoodie.write.concurrency.schema.conflict.resolution.enable",
        "true",
        "schemas that contradict each other are always a conflict",
    ),
    fixed_value("hoodie.rollback.instant.backup.enabled", "false", "rollbacks keep no copies"),
    fixed_value("hoodie.internal.schema", (), _INTERNAL),
    fixed_value("hoodie.internal.sql.merge.into.writes", "false", _INTERNAL),
    fixed_value("hoodie.internal.write.schema.canonicalize", "true", _INTERNAL),
    fixed_value("hoodie.static.overwrite.partition.paths", "", _INTERNAL),
    fixed_value("hoodie.bulkinsert.schema.ddl", (), _INTERNAL),
    fixed_value("_.hoodie.allow.multi.write.on.same.instant", "false", _INTERNAL),
)

_READS: tuple[Rules, ...] = (
    no_effect("hoodie.datasource.", "query.type view.type", _FOR_READS, "snapshot"),
    no_effect("hoodie.datasource.", "query.incremental.format", _FOR_READS, "latest_state"),
    no_effect("hoodie.datasource.", "merge.type", _FOR_READS, "payload_combine"),
    no_effect(
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
RULES: dict[str, OptionRule] = {name: rule for group in GROUPS for name, rule in group.items()}
