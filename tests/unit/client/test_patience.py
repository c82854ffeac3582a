"""How long a client tries again."""

import pytest

from goqueue.client import patience
from goqueue.client.errors import BrokerUnreachable
from goqueue.client.patience import LONGEST_PAUSE_SECONDS, Patience
from goqueue.client.record_block import next_sequence

FAILURE = BrokerUnreachable("gone")


class Clock:
    """Time passes only in pauses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(patience, "time", clock)
    return clock


def wait_until_tired(waiting: Patience, clock: Clock) -> float:
    began = clock.now
    while True:
        try:
            waiting.wait(FAILURE)
        except BrokerUnreachable:
            return clock.now - began


def test_pauses_grow_until_the_time_is_over(clock: Clock) -> None:
    assert 9 < wait_until_tired(Patience(10_000), clock) <= 10
    assert clock.pauses[:3] == [0.02, 0.04, 0.08]
    assert max(clock.pauses) == LONGEST_PAUSE_SECONDS


def test_a_success_begins_anew(clock: Clock) -> None:
    waiting = Patience(10_000, first_timeout_ms=2_000)
    assert wait_until_tired(waiting, clock) <= 2
    waiting.succeeded()
    assert 9 < wait_until_tired(waiting, clock) <= 10


def test_no_patience_at_all(clock: Clock) -> None:
    assert wait_until_tired(Patience(1), clock) == 0


def test_sequences_go_round() -> None:
    assert next_sequence(0, 5) == 5
    assert next_sequence(2**31 - 1, 1) == 0
    assert next_sequence(2**31 - 2, 3) == 1
