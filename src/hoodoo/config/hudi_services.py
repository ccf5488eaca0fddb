"""Keys of Apache Hudi 1.2 for what hoodoo does not have yet: the switches, then what tunes it.

A service that gets built takes its lines out of here, and its keys become `Key`s.
"""

from __future__ import annotations

from hoodoo.config.rule import Rules, not_built, tuning

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
    not_built("cleaning beside writes", "hoodie.clean.async.enabled hoodie.clean.async"),
    not_built("cleaning before writes", "hoodie.prewrite.cleaner.policy", off="none"),
    tuning(
        "hoodie.clean.",
        "delete.bootstrap.base.file multiple.enabled allow.multiple "
        "optimize.using.local.engine.context parallelism",
    ),
    tuning("hoodie.cleaner.", "delete.bootstrap.base.file parallelism"),
    tuning("hoodie.write.empty.clean.interval.hours"),
    not_built("archival beside writes", "hoodie.archive.async"),
    tuning(
        "hoodie.",
        "archive.delete.parallelism commits.archival.batch fail.on.timeline.archiving",
    ),
    not_built(
        "index of that kind",
        "hoodie.metadata.record.level.index.enable hoodie.metadata.index.expression.enable "
        "hoodie.metadata.index.secondary.enable",
    ),
    tuning("hoodie.metadata.", "index.partition.stats.enable streaming.write.enabled"),
    not_built(
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
    not_built("table service manager", "hoodie.table.service.manager.enabled"),
    tuning(
        "hoodie.table.service.manager.",
        "actions connection.retries connection.retry.delay.sec connection.timeout.sec "
        "deploy.extra.params deploy.parallelism deploy.queue deploy.resources deploy.username "
        "execution.engine uris",
    ),
    not_built("partition TTL", "hoodie.partition.ttl.inline"),
    tuning(
        "hoodie.partition.ttl.",
        "management.strategy.type strategy.class strategy.days.retain "
        "strategy.max.delete.partitions strategy.partition.selected",
    ),
    not_built(
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
    not_built("metaserver", "hoodie.metaserver.enabled"),
    tuning("hoodie.metaserver.", "connect.retries connect.retry.delay uris"),
    not_built("error table", "hoodie.errortable.enable"),
    tuning(
        "hoodie.errortable.",
        "base.path insert.shuffle.parallelism source.rdd.persist target.table.name "
        "upsert.shuffle.parallelism validate.recordcreation.enable validate.targetschema.enable "
        "write.class write.failure.strategy write.union.enable",
    ),
    not_built("commit callbacks", "hoodie.write.commit.callback.on"),
    tuning(
        "hoodie.write.commit.callback.",
        "class http.api.key http.custom.headers http.timeout.seconds http.url",
    ),
    not_built("bootstrap", "hoodie.bootstrap.base.path", off=""),
    tuning(
        "hoodie.bootstrap.",
        "data.queries.only full.input.provider index.class index.enable index.type mode.selector "
        "mode.selector.regex mode.selector.regex.mode parallelism partitionpath.translator.class",
    ),
    tuning("hoodie.table.cdc.supplemental.logging.mode"),
)
