"""Splits that are allowed, and how they go on."""

import pytest

from goqueue.model.errors import Conflict, InvalidPartitions
from goqueue.model.layouts import Split
from goqueue.state.layouts import (
    ends_of,
    ordered_split,
    plain_growth,
    readable,
    with_ends,
)

SETTLED = Split(epoch=1, parents=2, partitions=4, ends={0: 10, 1: 20})
DRAINING = Split(epoch=1, parents=2, partitions=4, ends={0: 10})


def test_a_split_is_into_a_multiple() -> None:
    (made,) = ordered_split("t", (), current=3, total=12, now_ms=5, drain_ms=100)
    assert made == Split(epoch=1, parents=3, partitions=12, since_ms=5, drain_ms=100)
    assert made.is_draining
    for total in (3, 4, 2):
        with pytest.raises(InvalidPartitions, match=r"such as 6.*partition\.growth=plain"):
            ordered_split("t", (), current=3, total=total, now_ms=5, drain_ms=100)


def test_one_split_at_a_time() -> None:
    with pytest.raises(Conflict, match="being split into 4"):
        ordered_split("t", (DRAINING,), current=4, total=8, now_ms=5, drain_ms=100)
    with pytest.raises(Conflict, match="being split into 4"):
        plain_growth("t", (DRAINING,), current=4, total=5, now_ms=5)
    splits = ordered_split("t", (SETTLED,), current=4, total=8, now_ms=5, drain_ms=100)
    assert [split.epoch for split in splits] == [1, 2]


def test_plain_growth_is_noted_where_there_was_a_split() -> None:
    assert plain_growth("t", (), current=3, total=4, now_ms=5) == ()
    splits = plain_growth("t", (SETTLED,), current=4, total=5, now_ms=5)
    assert (splits[1].epoch, splits[1].is_ordered, splits[1].is_draining) == (2, False, False)


def test_an_end_that_was_told_stays() -> None:
    (split,) = with_ends((DRAINING,), 1, {0: 99, 1: 20})
    assert split.ends == {0: 10, 1: 20}
    assert not split.is_draining
    assert with_ends((DRAINING,), 2, {1: 20}) == (DRAINING,)


def test_a_parent_of_two_splits_has_two_ends() -> None:
    second = Split(epoch=2, parents=4, partitions=8, ends={0: 30})
    assert ends_of((SETTLED, second), 0) == [10, 30]
    assert ends_of((SETTLED, second), 1) == [20]


def test_what_may_be_read() -> None:
    assert list(readable(4, frozenset())) == [0, 1, 2, 3]
    assert list(readable(4, frozenset({2}))) == [0, 1, 3]
