"""Batches of markers: what is in the files after writes, failures and lost answers."""

from __future__ import annotations

from itertools import count

import pytest
from support.lossy_storage import Loss, LossyStorage

from hoodoo.concurrency.markers import MarkerBatches, load_markers, parse_announced
from hoodoo.errors import InputError, OutcomeUnknown, StorageError
from hoodoo.format import markers as codec
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import MarkerKind, MarkerName
from hoodoo.runtime.env import Env
from hoodoo.storage.memory import MemoryStorage
from hoodoo.storage.traced import TracedStorage

T = InstantTime("20260102030405006")
DIRECTORY = f".hoodie/.temp/{T}"
FILES = 3

_names = count()


def marker(number: int) -> MarkerName:
    return MarkerName(f"city=rome/f{number}-0_{number}-1-0_{T}.parquet", MarkerKind.CREATE)


def memory() -> MemoryStorage:
    return MemoryStorage(f"marker-batches-{next(_names)}")


class Clock:
    """Nobody sleeps here."""

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        pass


def lossy() -> tuple[Env, LossyStorage]:
    storage = LossyStorage(memory())
    return Env(storage, clock=Clock()), storage  # type: ignore[arg-type]  # the rest is unused


def stored(env: Env) -> set[MarkerName]:
    found = load_markers(env, T)
    assert not found.foreign
    return set(found.files)


def names(env: Env) -> list[str]:
    return [entry.path.rpartition("/")[2] for entry in env.storage.list(DIRECTORY)]


def test_type_is_written_first_and_once_and_the_layout_is_apache_hudis() -> None:
    storage = TracedStorage(memory())
    batches = MarkerBatches(Env(storage), T, files=FILES)
    batches.announce([marker(1)])
    batches.announce([marker(2), marker(3)])
    assert [(each.verb, each.path.rpartition("/")[2]) for each in storage.operations] == [
        ("create", "MARKERS.type"),
        ("create", "MARKERS0"),
        ("replace", "MARKERS0"),
    ]
    assert storage.read(f"{DIRECTORY}/MARKERS.type") == b"TIMELINE_SERVER_BASED"
    lines = "".join(f"{marker(number)}\n" for number in (1, 2, 3))
    assert storage.read(f"{DIRECTORY}/MARKERS0") == lines.encode()
    assert batches.markers == tuple(marker(number) for number in (1, 2, 3))


def test_a_marker_announced_again_writes_nothing() -> None:
    storage = TracedStorage(memory())
    batches = MarkerBatches(Env(storage), T, files=FILES)
    batches.announce([marker(1), marker(1)])
    storage.clear()
    batches.announce([marker(1)])
    batches.announce([])
    assert not storage.operations
    assert storage.read(f"{DIRECTORY}/MARKERS0") == f"{marker(1)}\n".encode()


def test_batches_under_way_have_a_file_each_and_no_more_than_allowed() -> None:
    env = Env(memory())
    batches = MarkerBatches(env, T, files=FILES)
    under_way = []
    for number in range(FILES):
        assert batches.has_free_file
        under_way.append(batches.begin([marker(number)]))
    assert not batches.has_free_file
    for batch in under_way:
        assert batch is not None
        batches.write(batch)
        batches.end(batch, is_durable=True)
    for number in range(FILES, 2_000):
        batches.announce([marker(number)])
    assert names(env) == ["MARKERS.type", "MARKERS0", "MARKERS1", "MARKERS2"]
    assert stored(env) == {marker(number) for number in range(2_000)}
    sizes = [env.storage.stat(f"{DIRECTORY}/MARKERS{n}").size_bytes for n in range(FILES)]
    assert max(sizes) < 2 * min(sizes)  # a long file is not rewritten while others are short


def test_a_failed_write_announces_nothing_and_a_later_one_does() -> None:
    storage = LossyStorage(memory())
    env, fails = Env(storage), True

    def before(verb: str, path: str) -> None:
        if fails and path.endswith("MARKERS0"):
            raise StorageError(path, "the disk is full")

    storage.before = before
    batches = MarkerBatches(env, T, files=FILES)
    with pytest.raises(StorageError, match="the disk is full"):
        batches.announce([marker(1), marker(2)])
    assert batches.markers == ()
    assert batches.has_free_file
    fails = False
    batches.announce([marker(2), marker(3)])
    assert stored(env) == set(batches.markers) == {marker(2), marker(3)}


@pytest.mark.parametrize("loss", [Loss.LANDED, Loss.NEVER])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_lost_answer_is_found_out(loss: Loss, position: int) -> None:
    env, storage = lossy()
    storage.losses = [None] * position + [loss]
    batches = MarkerBatches(env, T, files=FILES)
    batches.announce([marker(1)])
    batches.announce([marker(2)])
    assert stored(env) == set(batches.markers) == {marker(1), marker(2)}
    assert names(env) == ["MARKERS.type", "MARKERS0"]


@pytest.mark.parametrize("earlier", [0, 1], ids=["create", "replace"])
def test_a_write_that_lands_late_takes_no_marker_back(earlier: int) -> None:
    env, storage = lossy()
    batches = MarkerBatches(env, T, files=1)
    for number in range(earlier):
        batches.announce([marker(number)])
    storage.losses = [None] * (1 - earlier) + [Loss.LATE] + [Loss.NEVER] * 4
    with pytest.raises(OutcomeUnknown):
        batches.announce([marker(10)])
    acknowledged = set(batches.markers)
    assert marker(10) not in acknowledged
    batches.announce([marker(11)])
    storage.land()
    assert stored(env) >= {*acknowledged, marker(11)}
    batches.announce([marker(12)])
    assert stored(env) >= set(batches.markers) >= {*acknowledged, marker(11), marker(12)}


@pytest.mark.parametrize("earlier", [0, 1], ids=["create", "replace"])
def test_a_write_that_landed_after_it_was_given_up_is_kept(earlier: int) -> None:
    env, storage = lossy()
    batches = MarkerBatches(env, T, files=1)
    for number in range(earlier):
        batches.announce([marker(number)])
    storage.losses = [None] * (1 - earlier) + [Loss.LATE] + [Loss.NEVER] * 4
    with pytest.raises(OutcomeUnknown):
        batches.announce([marker(10)])
    storage.land()
    batches.announce([marker(11)])
    batches.announce([marker(10)])
    assert stored(env) == {*batches.markers} >= {marker(10), marker(11)}


def test_what_another_server_wrote_stays() -> None:
    env = Env(memory())
    before = MarkerBatches(env, T, files=1)
    before.announce([marker(1), marker(2)])
    batches = MarkerBatches(env, T, files=1)
    batches.announce([marker(2), marker(3)])
    before.announce([marker(4)])  # it is not dead after all
    batches.announce([marker(5)])
    assert stored(env) == {marker(number) for number in range(1, 6)}
    assert names(env) == ["MARKERS.type", "MARKERS0"]


def test_a_damaged_end_of_a_file_does_not_swallow_the_next_marker() -> None:
    env = Env(memory())
    env.storage.create(f"{DIRECTORY}/{codec.TYPE_FILE}", codec.TYPE)
    env.storage.create(f"{DIRECTORY}/MARKERS0", f"{marker(1)}\nhalf a line".encode())
    MarkerBatches(env, T, files=1).announce([marker(2)])
    found = load_markers(env, T)
    assert found.files == (marker(1), marker(2))
    assert len(found.foreign) == 1


def test_a_deleted_directory_is_made_again_with_all_markers_of_the_file() -> None:
    env = Env(memory())
    batches = MarkerBatches(env, T, files=1)
    batches.announce([marker(1)])
    for name in ("MARKERS0", "MARKERS.type"):
        env.storage.delete(f"{DIRECTORY}/{name}")
    batches.announce([marker(2)])
    assert names(env) == ["MARKERS.type", "MARKERS0"]
    assert stored(env) == {marker(1), marker(2)}


def test_delete_removes_the_directory_and_forgets() -> None:
    env = Env(memory())
    batches = MarkerBatches(env, T, files=FILES)
    batches.announce([marker(1)])
    batches.delete()
    assert names(env) == []
    assert batches.markers == ()
    batches.announce([marker(1)])
    assert stored(env) == {marker(1)}


def test_markers_of_new_files_of_the_instant_are_taken() -> None:
    for text in (
        f"a-0_0-1-2_{T}.parquet.marker.CREATE",
        f"city=rome/b=1/a-0_0-1-2_{T}.parquet.marker.MERGE",
        f"city=rome/.a-0_{T}.log.1_0-5-6.marker.CREATE",
        f"city=.marker.CREATE/a-0_0-1-2_{T}.parquet.marker.CREATE",
        f"città=Zürich/a-0_0-1-2_{T}.parquet.marker.CREATE",
    ):
        assert str(parse_announced(text, T)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        f"a-0_0-1-2_{T}.parquet",
        f"a-0_0-1-2_{T}.parquet.marker.DELETE",
        f"a-0_0-1-2_{T}.parquet.marker.APPEND",
        "a-0_0-1-2_20260102030405007.parquet.marker.CREATE",
        f"../a-0_0-1-2_{T}.parquet.marker.CREATE",
        f"p/../../a-0_0-1-2_{T}.parquet.marker.CREATE",
        f"/etc/a-0_0-1-2_{T}.parquet.marker.CREATE",
        f"p//a-0_0-1-2_{T}.parquet.marker.CREATE",
        f"./a-0_0-1-2_{T}.parquet.marker.CREATE",
        f".hoodie/a-0_0-1-2_{T}.parquet.marker.CREATE",
        f".hoodie/metadata/files/a-0_0-1-2_{T}.parquet.marker.CREATE",
        ".hoodie/hoodie.properties.marker.CREATE",
        "notes.txt.marker.CREATE",
        f"p\n/a-0_0-1-2_{T}.parquet.marker.CREATE",
        f"p\r/a-0_0-1-2_{T}.parquet.marker.CREATE",
        f"p\0/a-0_0-1-2_{T}.parquet.marker.CREATE",
        f"p\ud800/a-0_0-1-2_{T}.parquet.marker.CREATE",
        f"a-0_0-1-2_{T}.parquet.marker.CREATE\n",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_announced(text, T)
