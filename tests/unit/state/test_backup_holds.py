"""Holds: what a broker does not do while it is copied, and for how long at most."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.backups import PAUSE_MAX_MS, TTL_MAX_MS
from goqueue.model.errors import Conflict, InvalidRequest, UnknownBackup
from goqueue.state.backups.holds import AGE_MAX_MS, HOLDS_MAX, Holds


def test_a_hold_ends_by_itself() -> None:
    holds = Holds()
    assert not holds.is_on(now_ms=0)
    holds.begin("a", 1_000, now_ms=0)
    assert holds.is_on(now_ms=999)
    assert not holds.is_on(now_ms=1_000)
    with pytest.raises(UnknownBackup):
        holds.renew("a", 1_000, now_ms=1_000)


def test_a_hold_that_is_renewed_goes_on_but_not_for_ever() -> None:
    holds = Holds()
    now_ms = 0
    holds.begin("a", TTL_MAX_MS, now_ms=now_ms)
    while now_ms <= AGE_MAX_MS:
        holds.renew("a", TTL_MAX_MS, now_ms=now_ms)
        now_ms += TTL_MAX_MS // 2
    with pytest.raises(Conflict):
        holds.renew("a", TTL_MAX_MS, now_ms=now_ms)


def test_whoever_ends_it_lets_all_go_on() -> None:
    holds = Holds()
    holds.begin("a", 1_000, now_ms=0)
    holds.begin("b", 1_000, now_ms=0)
    holds.pause_transactions("a", 500, now_ms=0)
    assert holds.transactions_held_ms(now_ms=100) == 400
    holds.end("a", now_ms=100)
    assert holds.transactions_held_ms(now_ms=100) == 0
    assert holds.is_on(now_ms=100)
    holds.end("b", now_ms=100)
    assert not holds.is_on(now_ms=100)


def test_there_is_a_limit() -> None:
    holds = Holds()
    for number in range(HOLDS_MAX):
        holds.begin(str(number), 1_000, now_ms=0)
    with pytest.raises(Conflict):
        holds.begin("one more", 1_000, now_ms=0)
    holds.begin("later", 1_000, now_ms=1_000)


@given(ttl_ms=st.integers(-10, 2 * TTL_MAX_MS), pause_ms=st.integers(-10, 2 * PAUSE_MAX_MS))
def test_no_wish_is_beyond_the_limits(ttl_ms: int, pause_ms: int) -> None:
    holds = Holds()
    if not 1 <= ttl_ms <= TTL_MAX_MS:
        with pytest.raises(InvalidRequest):
            holds.begin("a", ttl_ms, now_ms=0)
        return
    holds.begin("a", ttl_ms, now_ms=0)
    if not 0 <= pause_ms <= PAUSE_MAX_MS:
        with pytest.raises(InvalidRequest):
            holds.pause_transactions("a", pause_ms, now_ms=0)
        return
    holds.pause_transactions("a", pause_ms, now_ms=0)
    # A pause ends with its hold.
    assert holds.transactions_held_ms(now_ms=0) == min(pause_ms, ttl_ms)
