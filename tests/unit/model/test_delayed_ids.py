"""Names of delayed messages: of this release, and of one that kept all of them in shards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.delays import FIRST_NUMBER, DelayedId, carried_number
from goqueue.model.errors import UnknownDelayedMessage

SHARDS = st.integers(0, 999)
OLD_NUMBERS = st.integers(0, (1 << 40) - 1)
NEW_NUMBERS = st.integers(FIRST_NUMBER, FIRST_NUMBER + (1 << 40))
PARTITIONS = st.integers(0, 9_999)


@given(shard=SHARDS, number=OLD_NUMBERS, partition=PARTITIONS)
def test_a_message_that_was_carried_over_keeps_its_name(
    shard: int, number: int, partition: int
) -> None:
    name = DelayedId(5, shard, number)
    place = DelayedId(5, partition, carried_number(shard, number))
    assert place.shown == name
    assert place in set(name.places(partition + 1))
    assert place.number < FIRST_NUMBER


@given(first=st.tuples(SHARDS, OLD_NUMBERS), second=st.tuples(SHARDS, OLD_NUMBERS), new=NEW_NUMBERS)
def test_no_two_messages_of_a_partition_have_one_number(
    first: tuple[int, int], second: tuple[int, int], new: int
) -> None:
    numbers = carried_number(*first), carried_number(*second)
    assert (numbers[0] == numbers[1]) == (first == second)
    assert new not in numbers


@given(partition=PARTITIONS, number=NEW_NUMBERS)
def test_a_new_message_waits_where_its_name_says(partition: int, number: int) -> None:
    name = DelayedId(5, partition, number)
    assert name.shown == name
    assert DelayedId.parse(str(name)) == name
    assert list(name.places(partition + 1)) == [name]
    assert list(name.places(partition)) == []


@pytest.mark.parametrize("text", ["", "5", "5-0", "5-0-0-0", "5-0-x", "05-0-0", "5--1-0", "g-0-0"])
def test_other_texts_are_no_names(text: str) -> None:
    with pytest.raises(UnknownDelayedMessage):
        DelayedId.parse(text)


@pytest.mark.parametrize("shard", [0xFFFF, 1 << 70])
def test_a_shard_that_was_never_there_is_looked_for_nowhere(shard: int) -> None:
    assert list(DelayedId(5, shard, 0).places(3)) == []
