"""Chunks: what is gathered is what was given, and what is damaged is noticed."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.backup.chunks import FullChunk, checked_batches
from goqueue.backup.errors import BackupDamaged
from goqueue.backup.manifest import PartitionCopy
from goqueue.backup.planning import later_start, plan
from tests.unit.backup.batches import batch, cut_of, gathered, manifest_of

# Sizes of values, and how many offsets are missing before each batch.
LOGS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 2)), min_size=1, max_size=30)


def log_of(shape: list[tuple[int, int]], start: int = 0) -> list[bytes]:
    batches, offset = [], start
    for size, gap in shape:
        offset += gap
        batches.append(batch(offset, b"x" * size, b"y"))
        offset += 2
    return batches


def check(fulls: list[FullChunk], reached: int) -> int:
    for full in fulls:
        assert list(checked_batches(full.content, full.chunk, reached))
        reached = full.chunk.next
    return reached


@given(shape=LOGS, limit=st.integers(1, 2_000))
def test_chunks_hold_every_byte_in_order(shape: list[tuple[int, int]], limit: int) -> None:
    batches = log_of(shape)
    fulls = gathered(batches, limit)
    assert b"".join(full.content for full in fulls) == b"".join(batches)
    assert [full.chunk.is_full for full in fulls] == [True] * (len(fulls) - 1) + [False]
    assert all(full.chunk.size <= limit or full.content in batches for full in fulls)
    check(fulls, 0)


@given(shape=LOGS, more=LOGS, limit=st.integers(200, 2_000))
def test_what_did_not_change_becomes_the_same_objects(
    shape: list[tuple[int, int]], more: list[tuple[int, int]], limit: int
) -> None:
    first = gathered(log_of(shape), limit)
    end = first[-1].chunk.next
    again = gathered(
        log_of(shape) + log_of(more, end),
        limit,
        borders=frozenset(full.chunk.first for full in first),
    )
    known = {full.chunk.sha for full in again}
    assert {full.chunk.sha for full in first if full.chunk.is_full} <= known


DAMAGES: dict[str, dict[str, Any]] = {
    "another checksum": {"sha": "00" * 32},
    "another size": {"size": 3},
    "another first offset": {"first": 1},
    "another end": {"next": 9},
    "another last batch": {"last": 3},
    "another last checksum": {"last_crc": 1},
    "a gap that is none": {"missing": 1},
}


@pytest.mark.parametrize("what", DAMAGES)
def test_an_object_that_its_manifest_does_not_describe_is_damaged(what: str) -> None:
    [full] = gathered(log_of([(3, 0), (3, 0)]), 10_000)
    chunk = msgspec.structs.replace(full.chunk, **DAMAGES[what])
    with pytest.raises(BackupDamaged):
        list(checked_batches(full.content, chunk, 0))


def test_batches_out_of_order_are_damage() -> None:
    [full] = gathered([batch(5, b"a"), batch(2, b"b")], 10_000)
    with pytest.raises(BackupDamaged, match="comes after"):
        list(checked_batches(full.content, full.chunk, 0))


def copied(shape: list[tuple[int, int]], limit: int) -> PartitionCopy:
    fulls = gathered(log_of(shape), limit)
    return PartitionCopy(0, fulls[-1].chunk.next, tuple(full.chunk for full in fulls))


def test_full_chunks_of_an_earlier_backup_are_used_again() -> None:
    earlier = copied([(100, 0)] * 10, 400)
    [found] = plan([cut_of(0, 100)], manifest_of(earlier))
    assert found.reusable == earlier.chunks[:-1]
    assert not earlier.chunks[-1].is_full


def test_what_retention_deleted_is_left_out() -> None:
    earlier = copied([(100, 0)] * 10, 400)
    [found] = plan([cut_of(earlier.chunks[1].first + 1, 100)], manifest_of(earlier))
    assert found.reusable == earlier.chunks[1:-1]
    later = later_start(found, earlier.chunks[2].first)
    assert later.reusable == earlier.chunks[2:-1]
    assert later.cut.start == earlier.chunks[2].first


def test_nothing_is_used_again_of_what_may_have_changed() -> None:
    earlier = copied([(100, 0)] * 10, 400)
    [compacted] = plan([cut_of(0, 100, is_compacted=True)], manifest_of(earlier))
    assert compacted.reusable == ()
    assert compacted.borders == {chunk.first for chunk in earlier.chunks}
    # A log that ends before it, and one of another topic of that name.
    [shorter] = plan([cut_of(0, earlier.chunks[0].next)], manifest_of(earlier))
    assert shorter.reusable == earlier.chunks[:1]
    other = replace(cut_of(0, 100), topic_id=type(cut_of(0, 1).topic_id)(int=8))
    assert plan([other], manifest_of(earlier))[0].reusable == ()
