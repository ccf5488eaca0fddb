"""The interface that users hold: `create_table`, `open_table`, and `Table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from hoodoo.config.metadata import METADATA_ENABLE
from hoodoo.engine.engine import Engine
from hoodoo.engine.local import LocalEngine
from hoodoo.errors import InputError, TableExists
from hoodoo.inspect.calls import InspectCalls
from hoodoo.model.commit import OperationType
from hoodoo.model.commit_notes import Notes, check_notes
from hoodoo.model.progress import OnProgress
from hoodoo.model.spark_values import is_of_spark
from hoodoo.recovery.calls import RecoveryCalls
from hoodoo.services.calls import ServiceCalls
from hoodoo.services.index_calls import IndexCalls
from hoodoo.services.retention import RetentionCalls
from hoodoo.spark.change_calls import ChangeCalls
from hoodoo.storage.uri import PathText, path_text
from hoodoo.table.calls import ReadCalls, moment_text
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.write.calls import WriteCalls

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from hoodoo.services.upgrade import Upgraded
    from hoodoo.write.commit import CommitResult


def create_table(
    path: PathText,
    *,
    schema: Any,
    record_key: str | Sequence[str],
    name: str | None = None,
    partition_by: str | Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    table_type: str = "cow",
    options: Mapping[str, object] | None = None,
    exist_ok: bool = False,
) -> Table:
    """Create a table; `schema` is a pyarrow.Schema, a frame, Avro JSON, or a Spark StructType.

    With `exist_ok`, a table that is there already is opened, if it has the same record key,
    partition fields, ordering and type; else `TableExists` says what is different. It has a
    metadata table, unless `hoodie.metadata.enable` is false in its options.
    Order: that of `table.create.create_table`; that of `create_index`, under the table's lock.
    Crash: in between, a table without a metadata table; it can be written, and given one later.

        >>> schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
        >>> days = hoodoo.create_table("days", schema=schema, record_key="id", partition_by="day")
        >>> hoodoo.create_table(
        ...     "days", schema=schema, record_key="id", partition_by="day", exist_ok=True
        ... ).count()
        0
    """
    from hoodoo.table.create import create_table as create
    from hoodoo.table.create import open_fitting

    try:
        ref = create(
            path_text(path),
            schema=_arrow_schema(schema),
            record_key=record_key,
            name=name,
            partition_by=partition_by,
            ordering=ordering,
            table_type=table_type,
            options=options,
        )
    except TableExists:
        if not exist_ok:
            raise
        present = open_fitting(
            path_text(path),
            record_key=record_key,
            partition_by=partition_by,
            ordering=ordering,
            table_type=table_type,
            options=options,
        )
        return Table(present)
    if ref.options.get(METADATA_ENABLE):
        from hoodoo.services.metadata_table import chosen_partitions, create_index

        ref = create_index(ref, LocalEngine(), *chosen_partitions(ref))
    return Table(ref)


def open_table(path: PathText, options: Mapping[str, object] | None = None) -> Table:
    """Open a table that hoodoo or Apache Hudi wrote (versions 6, 8 and 9 to read, 9 to write).

    >>> hoodoo.open_table("trips").schema.names
    ['id', 'city', 'fare', 'ts']
    """
    return Table(open_ref(path_text(path), options))


def upgrade_table(
    path: PathText, options: Mapping[str, object] | None = None, *, dry_run: bool = False
) -> Upgraded:
    """Bring a table of version 6 or 8 to version 9; what `Table.upgrade` says.

    Of tables of other versions it says what to do with them.

        >>> hoodoo.upgrade_table("trips", dry_run=True).to_version
        9
    """
    from hoodoo.services.upgrade import open_old, upgrade

    return upgrade(open_old(path_text(path), options), dry_run=dry_run)


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """A builder of Spark sessions with the settings that make hoodoo's writes and reads fast.

        spark = hoodoo.configure(SparkSession.builder.master("local[2]")).getOrCreate()

    Workers run this Python (unless `PYSPARK_PYTHON` names another), are forked from a process that
    has hoodoo imported, and get rows through Unix sockets (Spark 4.1 on). What is set in the
    builder already, or later, wins. A session without these settings works too, only slower.
    """
    from hoodoo.spark.configure import configure as with_settings

    return with_settings(builder)


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("hoodoo")` and `df.write.format("hoodoo")` known to a session.

    >>> hoodoo.register(spark)
    >>> spark.read.format("hoodoo").load("trips").count()
    3
    """
    from hoodoo.spark.ready import register as make_known

    make_known(spark)


class Table(
    ReadCalls,
    WriteCalls,
    ChangeCalls,
    InspectCalls,
    RecoveryCalls,
    ServiceCalls,
    IndexCalls,
    RetentionCalls,
):
    """A table: read it, write it, look into it.

    >>> table = hoodoo.open_table("trips")
    >>> table.name, table.count()
    ('trips', 3)
    """

    def __init__(self, ref: TableRef, engine: Engine | None = None) -> None:
        self._ref = ref
        self._engine = engine or LocalEngine()

    def __repr__(self) -> str:
        properties = self._ref.properties
        return f"Table({self.uri!r}, {properties.type.value}, version {properties.version.value})"

    @property
    def uri(self) -> str:
        """Where the table is."""
        return self._ref.uri

    @property
    def name(self) -> str:
        """The table's name."""
        return self._ref.properties.name

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """`hoodie.properties` as it was when the table was opened."""
        return dict(self._ref.properties.raw)

    @property
    def schema(self) -> pa.Schema:
        """The present schema, without meta columns."""
        from hoodoo.format.schema import without_meta_fields
        from hoodoo.table.snapshot import take_snapshot

        return without_meta_fields(take_snapshot(self._ref).schema)

    # -- reads ------------------------------------------------------------------------------

    def read(
        self,
        spark: SparkSession,
        as_of: str | date | None = None,
        mode: str = "snapshot",
        columns: Sequence[str] | None = None,
        filter: Any = None,
    ) -> DataFrame:
        """The rows as a DataFrame of a Spark session; arguments as those of `to_arrow`.

        Base files without logs are read by Spark itself, so that columns and filters of the
        DataFrame are pushed down; `columns` and `filter` reach slices with logs as well.

            table.read(spark, filter="city = 'sf'").groupBy("city").count().show()
        """
        from hoodoo.spark.read import read

        return read(
            self._ref, spark, columns=columns, filter=filter, as_of=moment_text(as_of), mode=mode
        )

    @overload
    def changes(
        self,
        spark: None = None,
        *,
        since: str | date,
        until: str | date | None = None,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        deletes: bool = False,
        before: bool = False,
    ) -> pa.Table: ...
    @overload
    def changes(
        self,
        spark: SparkSession,
        *,
        since: str | date,
        until: str | date | None = None,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        deletes: bool = False,
        before: bool = False,
    ) -> DataFrame: ...
    def changes(
        self,
        spark: SparkSession | None = None,
        *,
        since: str | date,
        until: str | date | None = None,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        deletes: bool = False,
        before: bool = False,
    ) -> pa.Table | DataFrame:
        """Rows changed after `since` (an instant, a time, "earliest"), up to and with `until`.

            table.changes(since=first.instant, deletes=True)

        Without `deletes`, the rows written, as they are at the end. With `deletes`, what became of
        each row: a column `_change_type` says `insert`, `update_postimage` or `delete`, and
        `before` adds the rows before updates, `update_preimage`. A time without an offset is in the
        table's zone. With a Spark session the rows come as a DataFrame, else as an Arrow table.
        """
        begin, end = moment_text(since), moment_text(until)
        if begin is None:
            raise InputError("changes needs `since`")
        if before and not deletes:
            raise InputError("before=True needs deletes=True")
        asked: dict[str, Any] = {"since": begin, "until": end, "columns": columns, "filter": filter}
        if spark is not None:
            from hoodoo.spark.changes import read_changes as read_into_spark

            return read_into_spark(self._ref, spark, **asked, deletes=deletes, before=before)
        if deletes:
            from hoodoo.table.change_feed import read_feed, select_feed

            return read_feed(select_feed(self._ref, **asked, before=before), self._engine)
        from hoodoo.table.changes import read_changes

        return read_changes(self._ref, self._engine, **asked)

    # -- writes -----------------------------------------------------------------------------

    def _write(
        self, operation: OperationType, rows: Any, progress: OnProgress | None, notes: Notes
    ) -> CommitResult:
        """Spark writes rows of its DataFrames, this process all others; then services run."""
        from hoodoo.services.index_settings import keep_asked_indexes
        from hoodoo.services.upkeep import keep_up
        from hoodoo.write.retry import run_with_retries

        mine = self._ref.with_notes(check_notes(notes))
        keep_asked_indexes(self._ref, self._engine)
        if is_of_spark(rows):
            from hoodoo.spark.write import engine_of
            from hoodoo.spark.write import write as write_by_spark

            done = run_with_retries(
                mine, operation, lambda ref: write_by_spark(ref, operation, rows, progress)
            )
            return keep_up(self._ref, engine_of(self._ref, rows), done, progress)
        from hoodoo.write.incoming import read_input
        from hoodoo.write.operations import write

        given = read_input(self._ref, operation, rows)  # once: a stream cannot be read again
        done = run_with_retries(
            mine, operation, lambda ref: write(ref, operation, given, self._engine, progress)
        )
        return keep_up(self._ref, self._engine, done, progress)

    def _engine_on(self, spark: Any) -> Engine:
        if spark is None:
            return self._engine
        from hoodoo.spark.engine import engine_on

        return engine_on(spark, self._ref)

    # -- mending ------------------------------------------------------------------------------

    def upgrade(self, *, dry_run: bool = False) -> Upgraded:
        """Bring the table from version 6 or 8 to version 9, which can be written.

        Nobody else may be writing. If it was cut off, upgrading again goes on. `dry_run` only tells
        what would change, or why it would be refused. A metadata table is built anew.

            >>> table.upgrade(dry_run=True).is_done
            False
        """
        from hoodoo.services.upgrade import upgrade

        done = upgrade(self._ref, dry_run=dry_run, engine=self._engine)
        if not dry_run:
            self._ref = self._ref.open_again()
            self.__dict__.pop("properties", None)
        return done


def _arrow_schema(schema: Any) -> Any:
    if is_of_spark(schema) and hasattr(schema, "schema"):
        schema = schema.schema  # of a DataFrame
    if hasattr(schema, "jsonValue"):  # a Spark StructType; pyspark is imported only if it is there
        from hoodoo.spark.schema import arrow_schema

        return arrow_schema(schema)
    from hoodoo.rows.incoming import schema_to_arrow

    return schema_to_arrow(schema)
