"""Which partitions come from which, and who may read them."""

from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.layouts import Split, layout_text, lineage, splits_in, withheld
from goqueue.model.partitioner import partition_for_key

FIRST = Split(epoch=1, parents=2, partitions=4, ends={0: 10, 1: 20})
SECOND = Split(epoch=2, parents=4, partitions=8, ends={0: 30, 1: 40, 2: 50, 3: 0})
PLAIN = Split(epoch=3, parents=8, partitions=9, is_ordered=False)


@given(key=st.binary(max_size=40), count=st.integers(1, 50), times=st.integers(2, 5))
def test_a_key_stays_or_moves_to_a_child(key: bytes, count: int, times: int) -> None:
    split = Split(epoch=1, parents=count, partitions=count * times)
    for before, after in (
        (partition_for_key(key, count), partition_for_key(key, count * times)),
        # As librdkafka's default partitioner has it.
        (crc32(key) % count, crc32(key) % (count * times)),
    ):
        assert after == before or split.parent_of(after) == before


def test_lineage_names_parents_and_how_far_they_are_read_first() -> None:
    found = {each.partition: each for each in lineage((FIRST, SECOND, PLAIN), 9)}
    assert [(found[p].epoch, found[p].parent, found[p].parent_end) for p in (0, 1)] == [
        (0, None, None)
    ] * 2
    assert (found[3].epoch, found[3].parent, found[3].parent_end) == (1, 1, 20)
    assert (found[6].epoch, found[6].parent, found[6].parent_end) == (2, 2, 50)
    assert (found[8].epoch, found[8].parent, found[8].parent_end) == (3, None, None)


def held(committed: dict[int, int], *splits: Split) -> set[int]:
    return set(withheld(splits, lambda parent, end: committed.get(parent, -1) >= end))


def test_a_child_is_withheld_until_its_parent_is_read() -> None:
    assert held({}, FIRST) == {2, 3}
    assert held({0: 9, 1: 20}, FIRST) == {2}
    assert held({0: 10, 1: 21}, FIRST) == set()


def test_while_a_split_drains_all_its_children_are_withheld() -> None:
    assert held({0: 99, 1: 99}, Split(epoch=1, parents=2, partitions=4)) == {2, 3}
    half = Split(epoch=1, parents=2, partitions=4, ends={0: 1})
    assert held({0: 99, 1: 99}, half) == {3}


def test_a_child_waits_for_what_its_parent_was_split_off() -> None:
    # 3 had nothing in it when it was split, but 1, which it comes from, had.
    assert 7 in held({0: 30, 1: 19, 2: 50}, FIRST, SECOND)
    assert held({0: 30, 1: 40, 2: 50}, FIRST, SECOND) == set()
    # Through with the end of the first split of 1, not with that of the second.
    assert held({0: 30, 1: 20, 2: 50}, FIRST, SECOND) == {5}


def test_nobody_waits_for_partitions_that_were_added_plainly() -> None:
    assert held({0: 30, 1: 40, 2: 50}, FIRST, SECOND, PLAIN) == set()


def test_the_layout_travels_as_text() -> None:
    splits = (FIRST, SECOND, PLAIN)
    assert splits_in(layout_text(splits)) == splits
