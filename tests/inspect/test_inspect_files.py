"""Reports of files: what is listed is what readers use, and the numbers add up."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.archives import archive
from support.fixtures import fixture_tables

import hoodoo
from hoodoo.errors import InputError
from hoodoo.format.timeline.history import ArchivedInstant
from hoodoo.inspect.files import FilesReport, report_files
from hoodoo.model.instant import Action, InstantTime
from hoodoo.read.file_listing import visible_groups
from hoodoo.read.snapshot import take_snapshot
from hoodoo.table.ref import open_ref

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("note", pa.string())])


def rows(*ids: int, city: str, note: str = "") -> pa.Table:
    return pa.table({"id": ids, "city": [city] * len(ids), "note": [note] * len(ids)}, SCHEMA)


def make(place: Path, table_type: str = "mor", **options: object) -> hoodoo.Table:
    return hoodoo.create_table(
        str(place),
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        table_type=table_type,
        options=options,
    )


def report(place: Path, partition: str | None = None, **options: object) -> FilesReport:
    return report_files(open_ref(str(place), options), partition=partition)


@pytest.mark.parametrize("table", fixture_tables())
def test_groups_are_those_of_a_snapshot(table: str, unpack) -> None:
    ref = open_ref(str(unpack(table)))
    snapshot = take_snapshot(ref)
    groups = visible_groups(ref, ref.load_timeline())
    assert [group.latest for group in groups] == snapshot.slices()
    assert set(groups) == set(snapshot.groups)


@pytest.mark.parametrize("table", fixture_tables())
def test_reported_files_are_on_disk_and_add_up(table: str, unpack) -> None:
    place = unpack(table)
    found = report(place)
    totals = found.totals
    current = [group.slices[-1] for group in found.groups]
    files = [
        file
        for slice_ in current
        for file in ((slice_.base_file,) if slice_.base_file else ()) + slice_.log_files
    ]
    for file in files:
        assert (place / file.path).stat().st_size == file.size_bytes
    assert totals.current_bytes == sum(file.size_bytes for file in files)
    assert totals.base_files + totals.log_files == len(files)
    assert totals.file_groups == len(found.groups)
    assert sum(bucket.base_files for bucket in found.histogram) == totals.base_files
    assert sum(bucket.log_files for bucket in found.histogram) == totals.log_files


def test_slices_logs_and_totals(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.insert(rows(1, 2, city="sf"))
    table.insert(rows(3, city="la"))
    table.upsert(rows(1, city="sf", note="new"))
    found = report(tmp_path / "t")
    assert [group.partition for group in found.groups] == ["city=la", "city=sf"]
    la, sf = (group.slices[-1] for group in found.groups)
    assert (len(la.log_files), len(sf.log_files)) == (0, 1)
    assert sf.base_file is not None
    assert sf.size_bytes == sf.base_file.size_bytes + sf.log_files[0].size_bytes
    assert found.totals.partitions == 2
    assert (found.totals.base_files, found.totals.log_files) == (2, 1)
    assert found == table.files()


def test_older_slices_are_counted_apart(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "cow")
    table.insert(rows(1, 2, city="sf"))
    before = report(tmp_path / "t").totals
    table.upsert(rows(1, city="sf", note="new"))
    (group,) = report(tmp_path / "t").groups
    after = report(tmp_path / "t").totals
    assert [slice_.base_file is not None for slice_ in group.slices] == [True, True]
    assert group.slices[0].base_time < group.slices[1].base_time
    assert (before.older_slices, after.older_slices) == (0, 1)
    assert after.older_bytes == before.current_bytes
    assert after.base_files == 1


def test_replaced_and_uncommitted_files_are_left_out(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "cow")
    table.insert(rows(1, 2, city="sf"))
    table.insert_overwrite(rows(9, city="sf"))
    (group,) = report(tmp_path / "t").groups
    (base,) = (tmp_path / "t").glob(f"city=sf/{group.file_id}*")
    stray = base.name.replace(group.slices[-1].base_time, "29990101000000000")
    base.with_name(stray).write_bytes(b"uncommitted")
    assert report(tmp_path / "t").groups == (group,)


def test_archived_logs_go_to_slices_by_completion(tmp_path: Path) -> None:
    """A log requested before a base file, and completed after it, is on top of that base file."""
    place = tmp_path / "t"
    table = make(place)
    inserted = table.insert(rows(1, 2, city="sf"))
    updated = table.upsert(rows(1, city="sf", note="new"))
    (base,) = place.glob("city=sf/*.parquet")
    (log,) = place.glob("city=sf/.*.log.*")
    later = [f"2998010100000{n}000" for n in range(4)]  # the second base file: later[1]
    timeline = place / ".hoodie/timeline"
    (commit,) = timeline.glob(f"{inserted.instant}_*.deltacommit")
    (timeline / f"{later[1]}_{later[2]}.commit").write_bytes(commit.read_bytes())
    base.with_name(base.name.replace(inserted.instant, later[1])).write_bytes(base.read_bytes())
    log.rename(log.with_name(log.name.replace(updated.instant, later[0])))
    for path in timeline.glob("*deltacommit*"):
        path.unlink()
    gone = [(inserted.instant, inserted.completion_time), (later[0], later[3])]
    archive(
        place,
        *(
            ArchivedInstant(
                requested_time=InstantTime(requested),
                completion_time=InstantTime(completed),
                action=Action.DELTA_COMMIT,
            )
            for requested, completed in gone
        ),
    )
    (group,) = report(place).groups
    assert [slice_.base_time for slice_ in group.slices] == [inserted.instant, later[1]]
    assert [len(slice_.log_files) for slice_ in group.slices] == [0, 1]


def test_small_files_by_the_limit_in_force(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "cow")
    table.insert(rows(1, city="sf"))
    (group,) = report(tmp_path / "t").groups
    size = group.slices[-1].size_bytes
    key = "hoodie.parquet.small.file.limit"
    assert report(tmp_path / "t").totals.small_files == 1
    assert report(tmp_path / "t", **{key: size}).totals.small_files == 0
    assert report(tmp_path / "t", **{key: size + 1}).totals.small_files == 1


def test_histogram_puts_each_size_into_its_bucket(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "cow", **{"hoodie.metadata.enable": False})  # files change size
    table.insert(rows(1, city="sf"))
    (base,) = (tmp_path / "t").glob("city=sf/*.parquet")
    for size, expected in ((0, 0), (65_535, 0), (65_536, 1), (1 << 20, 2), (600 << 20, 6)):
        with base.open("r+b") as file:
            file.truncate(size)
        found = report(tmp_path / "t").histogram
        assert [bucket.base_files for bucket in found].index(1) == expected
        assert found[expected].from_bytes <= size
        end = found[expected].below_bytes
        assert end is None or size < end


def test_partitions_by_name_and_by_leading_part(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.string())])
    table = hoodoo.create_table(
        str(tmp_path / "t"), schema=schema, record_key="id", partition_by=["a", "b"]
    )
    table.insert(pa.table({"id": [1, 2, 3], "a": ["x", "x", "xy"], "b": ["p", "q", "p"]}, schema))

    def partitions(given: str | None) -> list[str]:
        return [group.partition for group in report(tmp_path / "t", given).groups]

    assert partitions(None) == ["a=x/b=p", "a=x/b=q", "a=xy/b=p"]
    assert partitions("a=x") == ["a=x/b=p", "a=x/b=q"]
    assert partitions("a=x/b=q") == partitions("a=x/b=q/") == ["a=x/b=q"]
    with pytest.raises(InputError, match="no partition 'a=z'; there are 'a=x/b=p'"):
        partitions("a=z")
    with pytest.raises(InputError, match="no partition"):
        partitions("a=x/b=q/c=r")


def test_a_partition_of_a_table_without_partitions(unpack) -> None:
    place = unpack("cow/v8_nonpartitioned")
    assert report(place, "").groups == report(place).groups != ()
    with pytest.raises(InputError, match="no partition 'city=sf'"):
        report(place, "city=sf")


def test_a_partition_whose_rows_are_gone_is_there_but_empty(tmp_path: Path) -> None:
    table = make(tmp_path / "t", "cow")
    table.insert(rows(1, city="sf"))
    table.delete_partitions(["city=sf"])
    assert report(tmp_path / "t", "city=sf").groups == ()
