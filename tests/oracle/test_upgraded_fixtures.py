"""Tables that Apache Hudi wrote in versions 6 and 8, upgraded: the same rows, and then writes.

The oracle is the `hudi` wheel, which reads all three versions.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.fixtures import fixture_tables
from support.wheel import rows_of, wheel_rows

import hoodoo
from hoodoo.errors import UnsupportedFeature
from hoodoo.inspect.doctor import compare_listings
from hoodoo.model import paths
from hoodoo.model.metadata_table import WRITABLE_PARTITIONS
from hoodoo.runtime.env import Env
from hoodoo.services.upgrade.upgrade import upgrade
from hoodoo.storage.storage import Storage
from hoodoo.table.ref import open_ref

Unpack = Callable[[str], Path]

OLD = [name for name in fixture_tables() if "/v6_" in name or "/v8_" in name]
UNWRITABLE = ("no_metafields", "timebasedkeygen")


def read_all(place: Path) -> dict[str, Any]:
    """What readers see, ours and the wheel."""
    table = hoodoo.open_table(place)
    times = [i.requested_time for i in open_ref(str(place)).load_timeline().commits]
    seen: dict[str, Any] = {"ours": rows_of(table.to_arrow()), "wheel": wheel_rows(place)}
    for time in times:
        seen[f"ours as of {time}"] = rows_of(table.to_arrow(as_of=time))
        seen[f"wheel as of {time}"] = wheel_rows(place, as_of=time)
        if "no_metafields" not in place.name:
            seen[f"changes since {time}"] = rows_of(table.changes(since=time))
    return {**seen, "schema": table.schema}


@pytest.fixture
def copy(unpack: Unpack, tmp_path: Path) -> Unpack:
    """A copy of a fixture table that a test may change; files are as old as they were."""

    def copied(name: str) -> Path:
        return Path(shutil.copytree(unpack(name), tmp_path / name.partition("/")[2]))

    return copied


def test_there_are_old_fixtures(fixtures: Path) -> None:
    assert len(OLD) == 16


@pytest.mark.slow
@pytest.mark.parametrize("name", OLD)
def test_readers_see_the_same_after_an_upgrade(name: str, copy: Unpack) -> None:
    place = copy(name)
    before = read_all(place)
    table = hoodoo.open_table(place)
    had = set(table.properties.get("hoodie.table.metadata.partitions", "").split(","))
    done = table.upgrade()
    assert (done.is_done, done.to_version) == (True, 9)
    assert table.properties["hoodie.table.version"] == "9"
    assert read_all(place) == before
    assert done.rebuilt == tuple(sorted(had & WRITABLE_PARTITIONS))
    if done.rebuilt:
        assert not compare_listings(table._ref)
    assert not [file for file in (place / ".hoodie").iterdir() if file.name.endswith("commit")]
    assert not table.upgrade().is_done


@pytest.mark.slow
@pytest.mark.parametrize("name", OLD)
def test_an_upgraded_table_is_written(name: str, copy: Unpack) -> None:
    place = copy(name)
    table = hoodoo.open_table(place)
    table.upgrade()
    columns = [field.name for field in table.schema]
    rows = table.to_arrow(columns=columns)
    if any(word in name for word in UNWRITABLE):
        with pytest.raises(UnsupportedFeature):
            table.upsert(rows)
        return
    if not rows.num_rows:
        pytest.skip("a table without a schema that tells its rows")
    table = hoodoo.open_table(place, {"hoodie.compact.inline": False})
    table.upsert(rows.slice(0, 1))
    table.delete(rows.slice(1, 1))
    table.insert(rows.slice(1, 1))
    ours = rows_of(table.to_arrow())
    assert ours == wheel_rows(place)
    assert rows_of(table.to_arrow(columns=columns)) == rows_of(rows)
    if "mor" in name:
        assert table.schedule_compaction() is not None
        table.run_compaction()
        assert rows_of(table.to_arrow(columns=columns)) == rows_of(rows)
        assert rows_of(table.to_arrow()) == wheel_rows(place)


class Mortal:
    """A storage whose process dies at its nth change, before that lands."""

    def __init__(self, inner: Storage, lives: int) -> None:
        self._inner, self._lives = inner, lives

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._inner, name)
        if name not in ("create", "put", "replace", "delete"):
            return verb

        def called(path: str, *args: Any, **kwargs: Any) -> Any:
            if path != paths.LOCK:
                self._lives -= 1
            if self._lives < 0:
                raise Died
            return verb(path, *args, **kwargs)

        return called


class Died(BaseException):
    """Not an error that anyone may handle."""


@pytest.mark.parametrize("name", ["quickstart-mor/v6_trips_8i1u", "cow/v8_nonpartitioned"])
def test_the_wheel_reads_the_same_wherever_an_upgrade_dies(
    name: str, unpack: Unpack, tmp_path: Path
) -> None:
    source, lives, before = unpack(name), 0, wheel_rows(unpack(name))
    while True:
        place = Path(shutil.copytree(source, tmp_path / f"died at {lives}"))
        ref = open_ref(str(place))
        env = ref.env
        mortal: Any = Mortal(env.storage, lives)
        try:
            upgrade(open_ref(str(place), env=Env(mortal, env.clock, env.ids)))
            break
        except Died:
            assert wheel_rows(place) == before, lives
            (place / paths.LOCK).unlink(missing_ok=True)
            hoodoo.open_table(place).upgrade()
            assert wheel_rows(place) == before, lives
        lives += 1
    assert lives > (15 if "v6" in name else 2)


def test_rows_of_a_table_without_a_payload_class_keep_their_order(copy: Unpack) -> None:
    place = copy("cow/v6_nonpartitioned")
    table = hoodoo.open_table(place)
    table.upgrade()
    columns = [field.name for field in table.schema]
    row = table.to_arrow(columns=columns).slice(0, 1)
    late = row.set_column(
        row.column_names.index("longField"), "longField", pa.array([-(2**40)], pa.int64())
    )
    table.upsert(late)  # an ordering value that is smaller than the stored one
    assert rows_of(table.to_arrow(columns=columns)).count(rows_of(row)[0]) == 1
