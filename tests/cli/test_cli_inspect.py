"""show, schema, timeline, files: text for people, and the same facts as JSON."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa
import pytest
from support.archives import archive
from support.dead_writes import dead_upsert
from support.fixtures import fixture_tables

import hoodoo
from hoodoo.cli.output.text import age_text, print_table, size_text
from hoodoo.cli.output.timeline import print_instants
from hoodoo.format.timeline.history import ArchivedInstant
from hoodoo.inspect.timeline import InstantReport
from hoodoo.model.instant import Action, InstantTime

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64())])


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three commits in two partitions, and a pending clustering from 2020."""
    place = tmp_path_factory.mktemp("cli") / "trips"
    table = hoodoo.create_table(
        str(place), schema=SCHEMA, record_key="id", partition_by="city", table_type="mor"
    )
    cities = ["sf", "sf", "la"]
    table.insert(pa.table({"id": [1, 2, 3], "city": cities, "fare": [1.5, 2.0, None]}, SCHEMA))
    table.upsert(pa.table({"id": [1], "city": ["sf"], "fare": [9.0]}, SCHEMA))
    table.delete(pa.table({"id": [2], "city": ["sf"], "fare": [2.0]}, SCHEMA))
    (place / ".hoodie/timeline/20200101000000000.clustering.requested").write_bytes(b"")
    return place


@pytest.mark.thin(2)
@pytest.mark.parametrize("table", fixture_tables())
@pytest.mark.parametrize("command", ["show", "schema", "timeline", "files"])
def test_every_fixture_is_shown(command: str, table: str, unpack, hoodoo_cli) -> None:
    place = unpack(table)
    text, parsed = hoodoo_cli(command, place), hoodoo_cli(command, place, "--json").json
    assert text.code == 0, text.err
    assert text.out.strip()
    if command in ("timeline", "files"):
        wide = [line for line in text.out.splitlines() if len(line) > 80 and "  " in line.strip()]
        assert not wide  # but for what is one word, such as a long partition
        text = hoodoo_cli(command, place, "--raw")
    if command == "timeline":
        assert all(one["requested_time"] in text.out for one in parsed)
    elif command == "files":
        assert all(group["file_id"] in text.out for group in parsed["groups"])
    elif command == "schema":
        assert all(column["name"] in text.out for column in parsed["columns"])
    else:
        assert parsed["name"] == text.facts["name"]


def test_show(trips: Path, hoodoo_cli) -> None:
    facts = hoodoo_cli("show", trips, "--rows").facts
    assert facts["name"] == "trips"
    assert facts["uri"] == f"file://{trips}"
    assert facts["type"] == "MERGE_ON_READ"
    assert facts["version"] == "9 (timeline layout 2)"
    assert facts["record key"] == "id"
    assert facts["partitioned by"] == "city"
    assert facts["merging"] == "COMMIT_TIME_ORDERING"
    assert facts["instants"] == "3 completed, 1 requested"
    assert facts["latest commit"].endswith("deltacommit DELETE")
    assert facts["rows"] == "2"
    assert "hoodie.table.name" not in facts


def test_show_as_json_holds_the_same(trips: Path, hoodoo_cli) -> None:
    found = hoodoo_cli("show", trips, "--rows", "--json").json
    facts = hoodoo_cli("show", trips, "--rows").facts
    assert found["name"] == facts["name"]
    assert found["instants"] == {"completed": 3, "requested": 1}
    assert found["latest_commit"]["operation"] == "DELETE"
    assert found["latest_commit"]["requested_time"] in facts["latest commit"]
    assert str(found["files"]["file_groups"]) == facts["file groups"]
    assert size_text(found["files"]["current_bytes"]) == facts["size"]
    assert found["rows"] == 2
    assert "properties" not in found
    assert hoodoo_cli("show", trips, "--json").json["rows"] is None


def test_show_properties(trips: Path, hoodoo_cli) -> None:
    facts = hoodoo_cli("show", trips, "--properties").facts
    found = hoodoo_cli("show", trips, "--properties", "--json").json["properties"]
    assert facts["hoodie.table.name"] == found["hoodie.table.name"] == "trips"
    assert found == dict(hoodoo.open_table(str(trips)).properties)


def test_schema(trips: Path, hoodoo_cli) -> None:
    rows = hoodoo_cli("schema", trips).rows
    assert rows[0] == ["column", "type", "nullable"]
    assert rows[2:] == [
        ["id", "int64", "yes"],
        ["city", "string", "yes"],
        ["fare", "double", "yes"],
    ]
    columns = hoodoo_cli("schema", trips, "--json").json["columns"]
    assert [[c["name"], c["type"], "yes"] for c in columns] == rows[2:]
    avro = hoodoo_cli("schema", trips, "--avro").json
    assert avro["type"] == "record"
    assert [field["name"] for field in avro["fields"]] == SCHEMA.names


def test_schema_shows_nested_columns_and_comments(tmp_path: Path, hoodoo_cli) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"comment": "the key"}),
            pa.field("at", pa.struct([("lat", pa.float64())])),
        ]
    )
    hoodoo.create_table(str(tmp_path / "t"), schema=schema, record_key="id")
    lines = hoodoo_cli("schema", tmp_path / "t").out.splitlines()
    assert lines[0].split() == ["column", "type", "nullable", "comment"]
    assert lines[2].split(maxsplit=3) == ["id", "int64", "no", "the key"]
    assert lines[3].startswith("at ")
    assert lines[4].startswith("  lat ")


def test_timeline(trips: Path, hoodoo_cli) -> None:
    headers, _, pending, *done = hoodoo_cli("timeline", trips, "--raw").rows
    assert headers == ["requested", "completed", "action", "state", "operation", "age", "owner"]
    assert pending[:3] == ["20200101000000000", "clustering", "requested"]
    assert pending[3].endswith("d")  # days since
    assert [words[2:5] for words in done] == [
        ["deltacommit", "completed", operation] for operation in ("INSERT", "UPSERT", "DELETE")
    ]
    assert [words[-2:] for words in done] == [["process", str(os.getpid())]] * 3
    found = hoodoo_cli("timeline", trips, "--json").json
    assert [one["requested_time"] for one in found] == [words[0] for words in (pending, *done)]
    assert [one["completion_time"] for one in found[1:]] == [words[1] for words in done]
    assert found[0]["age_seconds"] > 5 * 365 * 86_400


def test_the_timeline_is_readable_in_80_columns(trips: Path, hoodoo_cli) -> None:
    ran = hoodoo_cli("timeline", trips)
    headers, _, pending, note, *others = ran.rows
    assert headers == ["requested", "completed", "action", "operation"]
    assert pending == ["2020-01-01", "00:00:00.000", "requested", "clustering"]
    assert note[-1] == "old"
    done, (blank, owner) = others[:3], others[3:]
    found = hoodoo_cli("timeline", trips, "--json").json[1:]
    for words, one in zip(done, found, strict=True):
        requested, completed = one["requested_time"], one["completion_time"]
        assert re.sub(r"\D", "", "".join(words[:2])) == requested
        assert re.sub(r"\D", "", words[2]) == completed[8:]
        assert words[3:] == ["deltacommit", one["operation"]]
    assert (blank, owner[:2], owner[-1]) == ([], ["3", "by"], str(os.getpid()))
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("requested", "completed", "text"),
    [
        ("20260105120000001", "20260105120000900", "12:00:00.900"),
        ("20260105235959001", "20260106000001900", "+1d 00:00:01"),
        ("20260105120000", "20260105120001", "12:00:01"),
        ("001", "002", "002"),
    ],
)
def test_the_day_of_completion_is_told_if_it_is_another(
    requested: str, completed: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one = InstantReport(
        requested_time=requested,
        completion_time=completed,
        action="commit",
        state="completed",
        operation="UPSERT",
        age_seconds=None,
        owner=None,
        silent_seconds=None,
        expiry_seconds=None,
        is_dead=None,
        is_archived=False,
        problem=None,
    )
    print_instants([one])
    line = capsys.readouterr().out.splitlines()[2]
    cells = [part.strip() for part in line.split("  ") if part.strip()]
    assert cells[1:3] == [text, "commit"]


def test_timeline_tells_who_is_at_work(tmp_path: Path, hoodoo_cli) -> None:
    table = hoodoo.create_table(str(tmp_path / "t"), schema=SCHEMA, record_key="id")
    instant = dead_upsert(
        tmp_path / "t", pa.table({"id": [1], "city": ["sf"], "fare": [1]}, SCHEMA)
    )
    who = "nightly load on node7, process 4711 (upsert, begin)"
    lines = hoodoo_cli("timeline", tmp_path / "t").out.splitlines()
    assert f"  by {who}" in lines
    assert lines[-1].startswith("  silent for at least 11m ")
    assert lines[-1].endswith(": dead")
    shown = hoodoo_cli("timeline", tmp_path / "t", "--raw").out.splitlines()
    assert shown[0].split()[-4:] == ["owner", "sign", "of", "life"]
    assert f"  {who}  silent for at least 11m " in shown[2]
    assert shown[2].endswith(": dead")
    (one,) = hoodoo_cli("timeline", tmp_path / "t", "--json").json
    assert (one["requested_time"], one["owner"], one["is_dead"]) == (instant, who, True)
    assert one["silent_seconds"] > one["expiry_seconds"] == 600
    table.recover()
    assert "owner" not in hoodoo_cli("timeline", tmp_path / "t", "--raw").out
    assert who not in hoodoo_cli("timeline", tmp_path / "t").out


def test_timeline_limit_never_hides_pending_ones(trips: Path, hoodoo_cli) -> None:
    rows = hoodoo_cli("timeline", trips, "--limit", "1", "--raw").rows
    assert [words[4] for words in rows[3:4]] == ["DELETE"]
    assert rows[2][2] == "requested"
    assert "--limit 0" in hoodoo_cli("timeline", trips, "--limit", "1").out
    assert len(hoodoo_cli("timeline", trips, "--limit", "1", "--json").json) == 2
    assert len(hoodoo_cli("timeline", trips, "--limit", "0", "--json").json) == 4


def test_timeline_all_shows_archived_ones(tmp_path: Path, hoodoo_cli) -> None:
    table = hoodoo.create_table(str(tmp_path / "t"), schema=SCHEMA, record_key="id")
    done = table.insert(pa.table({"id": [1], "city": ["sf"], "fare": [1.0]}, SCHEMA))
    old = InstantTime("20200101000000000")
    archive(
        tmp_path / "t",
        ArchivedInstant(requested_time=old, completion_time=old, action=Action.CLEAN),
    )
    assert [
        one["requested_time"] for one in hoodoo_cli("timeline", tmp_path / "t", "--json").json
    ] == [done.instant]
    shown = hoodoo_cli("timeline", tmp_path / "t", "--all", "--json").json
    assert [(one["requested_time"], one["is_archived"]) for one in shown] == [
        (old, True),
        (done.instant, False),
    ]
    rows = hoodoo_cli("timeline", tmp_path / "t", "--all", "--raw").rows
    assert rows[2] == [old, old, "clean", "completed,", "archived"]
    lines = hoodoo_cli("timeline", tmp_path / "t", "--all").out.splitlines()
    assert lines[0] == "archived"
    assert lines[3].split() == ["2020-01-01", "00:00:00.000", "00:00:00.000", "clean"]
    assert lines[4:6] == ["", "active"]


def test_files(trips: Path, hoodoo_cli) -> None:
    out = hoodoo_cli("files", trips, "--raw").out
    groups, sizes, totals = out.split("\n\n")
    assert [line.split()[0] for line in groups.splitlines()[2:]] == ["city=la", "city=sf"]
    assert len(sizes.splitlines()) == 2 + 7
    found = hoodoo_cli("files", trips, "--json").json
    assert [group["partition"] for group in found["groups"]] == ["city=la", "city=sf"]
    for group in found["groups"]:
        assert group["file_id"] in groups
        assert group["slices"][-1]["base_time"] in groups
    assert f"file groups       {found['totals']['file_groups']}" in totals
    assert size_text(found["totals"]["current_bytes"]) in totals
    sf = found["groups"][1]["slices"][-1]
    for file in (sf["base_file"], *sf["log_files"]):
        assert (trips / file["path"]).stat().st_size == file["size_bytes"]


def test_files_are_readable_in_80_columns(trips: Path, hoodoo_cli) -> None:
    groups = hoodoo_cli("files", trips).out.partition("\n\n")[0].splitlines()
    found = hoodoo_cli("files", trips, "--json").json["groups"]
    assert groups[2::2] == ["city=la", "city=sf"]
    for line, group in zip(groups[3::2], found, strict=True):
        short, slices, day, time = line.split()[:4]
        assert group["file_id"].startswith(short[:8])
        assert short == f"{group['file_id'][:8]}..-0"
        assert slices == str(len(group["slices"]))
        assert re.sub(r"\D", "", day + time) == group["slices"][-1]["base_time"][:14]
    assert max(map(len, groups)) <= 80


def test_files_of_a_partition_and_limited(trips: Path, hoodoo_cli) -> None:
    one = hoodoo_cli("files", trips, "--partition", "city=la", "--json").json
    assert [group["partition"] for group in one["groups"]] == ["city=la"]
    assert one["totals"]["file_groups"] == 1
    limited = hoodoo_cli("files", trips, "--limit", "1")
    assert "1 of 2 groups" in limited.out
    assert "city=sf" not in limited.out
    assert len(hoodoo_cli("files", trips, "--limit", "1", "--json").json["groups"]) == 1


def test_a_damaged_commit_is_a_line_of_the_timeline(tmp_path: Path, hoodoo_cli) -> None:
    table = hoodoo.create_table(str(tmp_path / "t"), schema=SCHEMA, record_key="id")
    table.insert(pa.table({"id": [1], "city": ["sf"], "fare": [1.0]}, SCHEMA))
    (commit,) = (tmp_path / "t/.hoodie/timeline").glob("*_*.commit")
    commit.write_bytes(b"garbage")
    ran = hoodoo_cli("timeline", tmp_path / "t")
    assert ran.code == 0
    assert commit.name in ran.out
    # Whoever needs its content fails.
    assert hoodoo_cli("scan", tmp_path / "t").code == 1


def test_an_option_counts(trips: Path, hoodoo_cli) -> None:
    key = "hoodie.parquet.small.file.limit"
    assert hoodoo_cli("files", trips, "--json").json["totals"]["small_files"] == 2
    ran = hoodoo_cli("files", trips, "--json", "-o", f"{key}=1", "--option", "hoodie.a=b=c")
    assert ran.json["totals"]["small_files"] == 0


def test_sizes_and_ages() -> None:
    assert [size_text(n) for n in (0, 1023, 1024, 1536, 5 << 30, 3 << 50)] == [
        *("0 B", "1023 B", "1 KiB", "1.5 KiB", "5 GiB", "3072 TiB")
    ]
    assert [age_text(n) for n in (None, 0, 59.9, 60, 3725, 90_061, -5)] == [
        *("", "0s", "59s", "1m 0s", "1h 2m", "1d 1h", "-5s")
    ]


def test_tables_are_aligned_and_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "n"), [("日本", 1), ("a\x1b[31m\nb", 22), (None, 3)], numbers=("n",))
    assert capsys.readouterr().out.splitlines() == [
        "name           n",
        "------------  --",
        "日本           1",
        r"a\x1b[31m\nb  22",
        "               3",
    ]
