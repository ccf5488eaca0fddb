"""The interface that users hold: `create_table`, `open_table`, and `Table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from hoodoo.config.metadata import METADATA_ENABLE
from hoodoo.engine.engine import Engine
from hoodoo.engine.local import LocalEngine
from hoodoo.errors import InputError
from hoodoo.model.commit import OperationType
from hoodoo.services.calls import ServiceCalls
from hoodoo.services.index_calls import IndexCalls
from hoodoo.services.retention import RetentionCalls
from hoodoo.spark.change_calls import ChangeCalls
from hoodoo.storage.uri import PathText, path_text
from hoodoo.table.ref import TableRef, open_ref

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from hoodoo.inspect.conflicts import InProgressReport
    from hoodoo.inspect.doctor import Finding
    from hoodoo.inspect.files import FilesReport
    from hoodoo.inspect.locks import LockReport
    from hoodoo.inspect.plans import PlanReport
    from hoodoo.inspect.timeline import InstantReport
    from hoodoo.recovery.recover import Recovered
    from hoodoo.recovery.rollback import RolledBack
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
) -> Table:
    """Create a table; `schema` is a pyarrow.Schema, Avro JSON, or a Spark StructType.

    It has a metadata table, unless `hoodie.metadata.enable` is false in its options.
    Order: that of `table.create.create_table`; that of `create_index`, under the table's lock.
    Crash: in between, a table without a metadata table; it can be written, and given one later.
    """
    from hoodoo.table.create import create_table as create

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
    if ref.options.get(METADATA_ENABLE):
        from hoodoo.services.metadata_table import chosen_partitions, create_index

        ref = create_index(ref, LocalEngine(), *chosen_partitions(ref))
    return Table(ref)


def open_table(path: PathText, options: Mapping[str, object] | None = None) -> Table:
    """Open a table that hoodoo or Apache Hudi wrote (versions 6, 8 and 9 to read, 9 to write)."""
    return Table(open_ref(path_text(path), options))


def upgrade_table(
    path: PathText, options: Mapping[str, object] | None = None, *, dry_run: bool = False
) -> Upgraded:
    """Bring a table of version 6 or 8 to version 9; what `Table.upgrade` says.

    Of tables of other versions it says what to do with them.
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
    """Make `spark.read.format("hoodoo")` and `df.write.format("hoodoo")` known to a session."""
    from hoodoo.spark.ready import register as make_known

    make_known(spark)


class Table(ChangeCalls, ServiceCalls, IndexCalls, RetentionCalls):
    """A table: read it, write it, look into it."""

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

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        as_of: str | date | None = None,
        mode: str = "snapshot",
    ) -> pa.Table:
        """The rows, meta columns included unless `columns` says otherwise.

        `filter` is SQL text, pyarrow filter tuples, or a pyarrow expression; `as_of` an instant
        or a time, in the table's time zone unless it has an offset; `mode` "snapshot", or
        "read_optimized": base files only, without logs.
        """
        from hoodoo.table.scan import scan

        return scan(
            self._ref,
            self._engine,
            columns=columns,
            filter=filter,
            as_of=_moment(as_of),
            mode=mode,
        )

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
        """
        from hoodoo.spark.read import read

        return read(
            self._ref, spark, columns=columns, filter=filter, as_of=_moment(as_of), mode=mode
        )

    @overload
    def changes(
        self,
        spark: None = None,
        *,
        since: str | date,
        until: str | date | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table: ...
    @overload
    def changes(
        self,
        spark: SparkSession,
        *,
        since: str | date,
        until: str | date | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame: ...
    def changes(
        self,
        spark: SparkSession | None = None,
        *,
        since: str | date,
        until: str | date | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table | DataFrame:
        """Rows changed after `since` (an instant or a time), up to and including `until`.

        A time without an offset is in the table's time zone. With a Spark session the rows come as
        a DataFrame, without one as an Arrow table.
        """
        begin, end = _moment(since), _moment(until)
        if begin is None:
            raise InputError("changes needs `since`")
        names = list(columns) if columns is not None else None
        if spark is not None:
            from hoodoo.spark.read import read_changes as read_into_spark

            return read_into_spark(self._ref, spark, since=begin, until=end, columns=names)
        from hoodoo.table.changes import read_changes

        return read_changes(self._ref, self._engine, since=begin, until=end, columns=names)

    # -- writes -----------------------------------------------------------------------------

    def insert(self, rows: Any) -> CommitResult:
        """Add rows; keys that are there already are not looked for."""
        return self._write(OperationType.INSERT, rows)

    def bulk_insert(self, rows: Any) -> CommitResult:
        """Add rows as new files, leaving existing ones alone."""
        return self._write(OperationType.BULK_INSERT, rows)

    def upsert(self, rows: Any) -> CommitResult:
        """Update the rows whose keys are there, add the others."""
        return self._write(OperationType.UPSERT, rows)

    def insert_overwrite(self, rows: Any) -> CommitResult:
        """Replace the rows of every partition that occurs in `rows`."""
        return self._write(OperationType.INSERT_OVERWRITE, rows)

    def insert_overwrite_table(self, rows: Any) -> CommitResult:
        """Replace all rows of the table."""
        return self._write(OperationType.INSERT_OVERWRITE_TABLE, rows)

    def delete_partitions(self, partitions: Sequence[str]) -> CommitResult:
        """Take all rows of these partitions (paths such as `city=sf`) out."""
        return self._write(OperationType.DELETE_PARTITION, partitions)

    def _write(self, operation: OperationType, rows: Any) -> CommitResult:
        """Rows of a Spark DataFrame are written by Spark, all others in this process.

        Then the services are run that are due.
        """
        from hoodoo.services.index_settings import keep_asked_indexes
        from hoodoo.services.upkeep import keep_up
        from hoodoo.write.retry import run_with_retries

        keep_asked_indexes(self._ref, self._engine)
        if type(rows).__module__.startswith("pyspark."):
            from hoodoo.spark.write import engine_of
            from hoodoo.spark.write import write as write_by_spark

            done = run_with_retries(
                self._ref, operation, lambda ref: write_by_spark(ref, operation, rows)
            )
            return keep_up(self._ref, engine_of(self._ref, rows), done)
        from hoodoo.write.operations import write

        done = run_with_retries(
            self._ref, operation, lambda ref: write(ref, operation, rows, self._engine)
        )
        return keep_up(self._ref, self._engine, done)

    def _engine_on(self, spark: Any) -> Engine:
        if spark is None:
            return self._engine
        from hoodoo.spark.engine import engine_on

        return engine_on(spark, self._ref)

    # -- mending ------------------------------------------------------------------------------

    def recover(self) -> Recovered:
        """Roll back writes whose writer died, finish rollbacks that were cut off, and sweep.

        Writers that are alive are not disturbed; what was left, and why, is in the answer.
        """
        from hoodoo.recovery.recover import recover

        return recover(self._ref)

    def rollback(self, instant: str, *, force: bool = False) -> RolledBack:
        """Roll back a pending instant; `force` also takes it from a writer that is alive.

        That writer fails when it wants to commit. Commits that are completed stay: rolling one
        back is an `AlreadyCommitted`; `undo` takes the latest one back.
        """
        from hoodoo.recovery.recover import roll_back

        return roll_back(self._ref, instant, force=force)

    def upgrade(self, *, dry_run: bool = False) -> Upgraded:
        """Bring the table from version 6 or 8 to version 9, which can be written.

        Nobody else may be writing. If it was cut off, upgrading again goes on. `dry_run` only tells
        what would change, or why it would be refused. A metadata table is built anew.
        """
        from hoodoo.services.upgrade import upgrade

        done = upgrade(self._ref, dry_run=dry_run, engine=self._engine)
        if not dry_run:
            self._ref = self._ref.open_again()
            self.__dict__.pop("properties", None)
        return done

    # -- looking into it ----------------------------------------------------------------------

    def timeline(self, *, include_archived: bool = False) -> list[InstantReport]:
        """Instants, oldest first: action, state, requested, completed, owner, age."""
        from hoodoo.inspect.timeline import report_timeline

        return report_timeline(self._ref, include_archived=include_archived)

    def files(self, partition: str | None = None) -> FilesReport:
        """File groups with their slices, and a histogram of file sizes."""
        from hoodoo.inspect.files import report_files

        return report_files(self._ref, partition=partition)

    def plans(self) -> list[PlanReport]:
        """Pending plans of table services: what they are about and block, and who runs them."""
        from hoodoo.inspect.plans import report_plans

        return report_plans(self._ref)

    def conflicts(self) -> list[InProgressReport]:
        """Writes in progress and pending plans: which file groups they touch, and who will lose."""
        from hoodoo.inspect.conflicts import report_conflicts

        return report_conflicts(self._ref)

    def doctor(self) -> list[Finding]:
        """What is wrong with the table, why, and the command that repairs it."""
        from hoodoo.inspect.doctor import diagnose

        return diagnose(self._ref)

    def lock_status(self) -> LockReport:
        """Who holds the table's lock, since when, and how long yet."""
        from hoodoo.inspect.locks import lock_status

        return lock_status(self._ref)


def _moment(moment: str | date | None) -> str | None:
    if isinstance(moment, date | datetime):
        return moment.isoformat()
    if moment is None or isinstance(moment, str):
        return moment
    raise InputError(f"{moment!r} is neither an instant nor a time")


def _arrow_schema(schema: Any) -> Any:
    if hasattr(schema, "jsonValue"):  # a Spark StructType; pyspark is imported only if it is there
        from hoodoo.spark.schema import arrow_schema

        return arrow_schema(schema)
    return schema
