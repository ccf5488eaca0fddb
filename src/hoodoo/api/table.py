"""`Table`: what users hold. Its groups have the calls that are not about rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from hoodoo.api.handle import TableHandle, delegate
from hoodoo.api.indexes import TableIndexes
from hoodoo.api.inspect import TableInspection
from hoodoo.api.reads import TableReads
from hoodoo.api.retention import TableRetention
from hoodoo.api.services import TableServices
from hoodoo.api.writes import TableWrites
from hoodoo.errors import HoodooError
from hoodoo.runtime.engine import Engine, LocalEngine
from hoodoo.table.ref import TableRef

if TYPE_CHECKING:
    import pyarrow as pa

    from hoodoo.services.upgrade.upgrade import UpgradeResult


def _services(table: Table) -> TableServices:
    return table.services


def _indexes(table: Table) -> TableIndexes:
    return table.indexes


def _retention(table: Table) -> TableRetention:
    return table.retention


def _inspect(table: Table) -> TableInspection:
    return table.inspect


class Table(TableReads, TableWrites):
    """A table: read it, write it, look into it.

    >>> table = hoodoo.open_table("trips")
    >>> table.name, table.count()
    ('trips', 3)
    """

    def __init__(self, ref: TableRef, engine: Engine | None = None) -> None:
        super().__init__(TableHandle(ref, engine or LocalEngine()))

    def __repr__(self) -> str:
        properties = self._ref.properties
        return f"Table({self.uri!r}, {properties.type.value}, version {properties.version.value})"

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        from hoodoo.inspect.html import describe_html

        try:
            return describe_html(self._ref)
        except HoodooError as error:  # to look at a damaged table is no failure
            from html import escape

            return f"<code>{escape(repr(self))}</code>: {escape(str(error))}"

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
        from hoodoo.read.snapshot import take_snapshot

        return without_meta_fields(take_snapshot(self._ref).schema)

    # -- groups, and their calls by one name -----------------------------------------------------

    @cached_property
    def services(self) -> TableServices:
        """Compaction, clustering, cancels, recovery."""
        return TableServices(self._handle)

    @cached_property
    def indexes(self) -> TableIndexes:
        """The indexes of the metadata table."""
        return TableIndexes(self._handle)

    @cached_property
    def retention(self) -> TableRetention:
        """Clean, archive, savepoints, restore."""
        return TableRetention(self._handle)

    @cached_property
    def inspect(self) -> TableInspection:
        """Reports about the table."""
        return TableInspection(self._handle)

    schedule_compaction = delegate(_services, TableServices.schedule_compaction)
    run_compaction = delegate(_services, TableServices.run_compaction)
    schedule_log_compaction = delegate(_services, TableServices.schedule_log_compaction)
    run_log_compaction = delegate(_services, TableServices.run_log_compaction)
    schedule_clustering = delegate(_services, TableServices.schedule_clustering)
    run_clustering = delegate(_services, TableServices.run_clustering)
    request_cancel = delegate(_services, TableServices.request_cancel)
    execute_cancel = delegate(_services, TableServices.execute_cancel)
    recover = delegate(_services, TableServices.recover)
    rollback = delegate(_services, TableServices.rollback)

    create_index = delegate(_indexes, TableIndexes.create_index)
    schedule_index = delegate(_indexes, TableIndexes.schedule_index)
    run_index = delegate(_indexes, TableIndexes.run_index)
    drop_index = delegate(_indexes, TableIndexes.drop_index)

    clean = delegate(_retention, TableRetention.clean)
    archive = delegate(_retention, TableRetention.archive)
    savepoint = delegate(_retention, TableRetention.savepoint)
    delete_savepoint = delegate(_retention, TableRetention.delete_savepoint)
    savepoints = delegate(_retention, TableRetention.savepoints)
    restore = delegate(_retention, TableRetention.restore)
    undo = delegate(_retention, TableRetention.undo)

    history = delegate(_inspect, TableInspection.history)
    timeline = delegate(_inspect, TableInspection.timeline)
    files = delegate(_inspect, TableInspection.files)
    plans = delegate(_inspect, TableInspection.plans)
    conflicts = delegate(_inspect, TableInspection.conflicts)
    doctor = delegate(_inspect, TableInspection.doctor)
    lock_status = delegate(_inspect, TableInspection.lock_status)

    # -- mending ---------------------------------------------------------------------------------

    def upgrade(self, *, dry_run: bool = False) -> UpgradeResult:
        """Bring the table from version 6 or 8 to version 9, which can be written.

        Nobody else may be writing. If it was cut off, upgrading again goes on. `dry_run` only tells
        what would change, or why it would be refused. A metadata table is built anew.

            >>> table.upgrade(dry_run=True).is_done
            False
        """
        from hoodoo.services.upgrade.upgrade import upgrade

        result = upgrade(self._ref, dry_run=dry_run, engine=self._engine)
        if not dry_run:
            self._handle.ref = self._ref.reopen_unchecked()
            self.__dict__.pop("properties", None)
        return result
