"""Which blocks of a slice count, and in which order."""

from __future__ import annotations

import pytest
from log_samples import log_files

from hoodoo.errors import FormatError
from hoodoo.format.log import Block, BlockType, HeaderKey, read_blocks, rollback_block, scan_blocks
from hoodoo.model.instant import InstantTime


def data(time: str, name: str = "", *, compacted: str = "", kind=BlockType.PARQUET_DATA) -> Block:
    header = {HeaderKey.INSTANT_TIME: time}
    if compacted:
        header[HeaderKey.COMPACTED_BLOCK_TIMES] = compacted
    return Block(kind, header, (name or time).encode())


def rollback(target: str, *, at: str = "99") -> Block:
    return rollback_block(instant_time=InstantTime(at), target=InstantTime(target))


def names(*blocks: Block, **options) -> str:
    return " ".join(
        bytes(block.content).decode() for block in scan_blocks(blocks, **options).blocks
    )


def test_all_blocks_count_in_order():
    delete = data("2", "2d", kind=BlockType.DELETE)
    assert names(data("1", "1a"), data("1", "1b"), data("2"), delete) == "1a 1b 2 2d"


def test_later_instants_and_those_that_are_not_completed_are_invisible():
    blocks = data("1"), data("2", kind=BlockType.DELETE), data("3"), data("4")
    assert names(*blocks, latest="3") == "1 2 3"
    assert names(*blocks, is_visible={"1", "3", "4"}.__contains__) == "1 3 4"
    scan = scan_blocks(blocks, latest=InstantTime("3"), is_visible={"1", "4"}.__contains__)
    assert (len(scan.blocks), scan.invisible) == (1, 3)


def test_a_rollback_drops_all_earlier_blocks_of_its_target_wherever_they_are():
    scan = scan_blocks([data("1"), data("2", "2a"), data("3"), data("2", "2b"), rollback("2")])
    assert [block.instant_time for block in scan.blocks] == ["1", "3"]
    assert scan.rolled_back == 2


def test_blocks_after_the_rollback_are_a_new_attempt():
    assert (
        names(data("1"), data("2", "old"), data("3"), rollback("2"), data("2", "new")) == "1 3 new"
    )


def test_a_rollback_is_obeyed_even_if_it_is_newer_than_the_query():
    assert names(data("1"), data("2"), rollback("2", at="50"), latest="3") == "1"
    assert (
        names(data("1"), data("2"), rollback("2", at="50"), is_visible={"1", "2"}.__contains__)
        == "1"
    )


def test_an_extra_rollback_changes_nothing():
    assert names(data("1"), rollback("7"), data("2"), rollback("7")) == "1 2"


def test_blocks_of_one_instant_stay_together_where_it_first_appears():
    assert names(data("1", "1a"), data("2"), data("1", "1b")) == "1a 1b 2"


def test_a_compacted_block_takes_the_place_of_the_newest_block_that_it_replaces():
    blocks = data("1"), data("2"), data("3"), data("4", "M", compacted="1,2")
    assert names(*blocks) == "M 3"
    assert scan_blocks(blocks).compacted_blocks == 2


def test_compacted_blocks_may_be_compacted_again():
    blocks = [data("1"), data("2"), data("3", "M1", compacted="1,2"), data("4"), data("5")]
    assert names(*blocks, data("6", "M2", compacted="3,4")) == "M2 5"
    assert names(*blocks, data("6", "M2", compacted="3,4"), rollback("6")) == "M1 4 5"
    assert names(*blocks, rollback("3"), data("6", "M2", compacted="4,5")) == "1 2 M2"


def test_a_log_compaction_that_is_not_visible_replaces_nothing():
    blocks = data("1"), data("2"), data("3", "M", compacted="1,2")
    assert names(*blocks, latest="2") == "1 2"
    assert names(*blocks, is_visible={"1", "2"}.__contains__) == "1 2"


def test_a_compacted_block_whose_sources_are_elsewhere_is_not_lost():
    assert names(data("5", "M", compacted="1,2"), data("6")) == "M 6"


@pytest.mark.parametrize("times", ["5", "6", "5,6,", ","])
def test_a_compacted_block_never_replaces_itself_or_what_comes_later(times):
    assert names(data("5", "M", compacted=times), data("6", compacted="5")) in ("6", "M 6")
    assert "6" in names(data("5", "M", compacted=times), data("6"))


def test_change_records_are_no_rows():
    assert names(data("1"), data("1", "cdc", kind=BlockType.CDC_DATA)) == "1"


def test_a_block_without_an_instant_is_a_typed_error():
    with pytest.raises(FormatError, match="INSTANT_TIME"):
        scan_blocks([Block(BlockType.AVRO_DATA, {})])


def test_the_rolled_back_fixture_of_version_6(fixtures):
    """Log 1 was rolled back by log 2; log 3 was written after that."""
    files = sorted(
        (name, content)
        for name, content in log_files(fixtures).items()
        if name.startswith("mor-parquet/v6_nonpartitioned_rollback/") and "/.hoodie/" not in name
    )
    assert [name.split(".log.")[1][0] for name, _ in files] == ["1", "2", "3"]
    blocks = [block for _, content in files for block in read_blocks(content).blocks]
    scan = scan_blocks(blocks)
    assert [block.type for block in blocks] == [
        BlockType.PARQUET_DATA,
        BlockType.COMMAND,
        BlockType.PARQUET_DATA,
    ]
    assert scan.blocks == (blocks[2],)
    assert scan.rolled_back == 1
