"""The window of deduplication ids and the numbers, over sends, clocks put back and restarts."""

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.queues.fifo import DEDUPLICATION_MS, TooManyIds, number_at, time_of
from goqueue.state.queues import fifo_window
from goqueue.state.queues.fifo_window import FifoWindow, Taken


def send(window: FifoWindow, key: str, message_id: str, now_ms: int) -> Taken:
    taken = window.decide(key, message_id, now_ms)
    if taken.message_id == message_id:
        window.replay(taken)
    return taken


SENDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, DEDUPLICATION_MS), st.booleans()), max_size=50
)


@given(SENDS)
def test_window_like_a_list_of_sends(sends: list[tuple[str, int, bool]]) -> None:
    """The window of an id begins with its first send and is not prolonged by later ones."""
    window = FifoWindow()
    stored: list[tuple[int, str, Taken]] = []
    now_ms = 0
    for number, (key, later_ms, is_stored) in enumerate(sends):
        now_ms += later_ms
        known = [m for at, k, m in stored if k == key and at + DEDUPLICATION_MS > now_ms]
        taken = send(window, key, str(number), now_ms)
        if known:
            assert taken == known[-1]
            continue
        assert taken.message_id == str(number)
        if is_stored:
            stored.append((now_ms, key, taken))
        else:
            window.withdraw(taken)


@pytest.mark.parametrize("later_ms", [0, 1, DEDUPLICATION_MS - 1])
def test_a_repetition_within_five_minutes_is_known(later_ms: int) -> None:
    window = FifoWindow()
    first = send(window, "a", "first", 1_000)
    assert send(window, "a", "again", 1_000 + later_ms) == first


def test_after_five_minutes_to_the_millisecond_the_id_is_free() -> None:
    window = FifoWindow()
    first = send(window, "a", "first", 1_000)
    second = send(window, "a", "second", 1_000 + DEDUPLICATION_MS)
    assert second.message_id == "second"
    assert second.number > first.number


def test_deciding_changes_nothing() -> None:
    window = FifoWindow()
    assert window.decide("a", "first", 5) == window.decide("a", "first", 5)
    assert len(window) == 0


def test_old_ids_take_no_room() -> None:
    window = FifoWindow()
    for n in range(1_000):
        send(window, str(n), "m", n)
    send(window, "late", "m", DEDUPLICATION_MS + 999)
    assert len(window) == 1


def test_a_full_window_refuses_until_its_oldest_id_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fifo_window, "REMEMBERED_MAX", 2)
    window = FifoWindow()
    first = send(window, "a", "1", 0)
    send(window, "b", "2", 10)
    with pytest.raises(TooManyIds):
        window.decide("c", "3", DEDUPLICATION_MS - 1)
    assert window.decide("a", "4", DEDUPLICATION_MS - 1) == first
    assert send(window, "c", "5", DEDUPLICATION_MS).message_id == "5"


def test_withdrawing_leaves_a_later_message_alone() -> None:
    window = FifoWindow()
    first = send(window, "a", "first", 0)
    second = send(window, "a", "second", DEDUPLICATION_MS)
    window.withdraw(first)
    assert window.decide("a", "third", DEDUPLICATION_MS + 1) == second


def test_numbers_grow_while_the_clock_stands_still_and_when_it_is_put_back() -> None:
    window = FifoWindow()
    numbers = [send(window, str(n), "m", now_ms).number for n, now_ms in enumerate((9, 9, 3, 10))]
    assert numbers == [number_at(9), number_at(9, 1), number_at(9, 2), number_at(10)]


# --- restarts -----------------------------------------------------------------------------


class Step(NamedTuple):
    key: str
    # A clock may be put back, too.
    later_ms: int
    # Appended; refused; or the broker was killed between the decision and the append.
    fate: str
    restarts: bool


STEPS = st.lists(
    st.builds(
        Step,
        key=st.sampled_from("abc"),
        later_ms=st.integers(-2 * DEDUPLICATION_MS, DEDUPLICATION_MS) | st.integers(0, 3),
        fate=st.sampled_from(["stored", "refused", "killed"]),
        restarts=st.booleans(),
    ),
    max_size=40,
)


@dataclass
class World:
    """A queue: what is in its log, and the window of the broker that runs."""

    now_ms: int = 10 * DEDUPLICATION_MS
    log: list[Taken] = field(default_factory=list)
    window: FifoWindow = field(default_factory=FifoWindow)

    def restart(self) -> None:
        """Records are found by their timestamps, which are the numbers' times, up to five minutes
        before the last one: the clock may be ahead, and be put back."""
        self.window = FifoWindow()
        newest_ms = max((time_of(taken.number) for taken in self.log), default=0)
        since_ms = min(self.now_ms, newest_ms) - DEDUPLICATION_MS
        for taken in sorted(self.log, key=lambda taken: taken.number):
            if time_of(taken.number) >= since_ms:
                self.window.replay(taken)

    def time_ms(self) -> int:
        """The window's time: the clock, unless it was put back since the last number."""
        given = (time_of(taken.number) for taken in self.log)
        return max([self.now_ms, time_of(self.window.last_number), *given])

    def known(self, key: str) -> Taken | None:
        return next(
            (t for t in reversed(self.log) if t.key == key and self.time_ms() < t.free_ms), None
        )


@given(STEPS)
def test_over_restarts(steps: list[Step]) -> None:
    """A retry is known, or the message was never stored; numbers of what is stored only grow."""
    world = World()
    for position, step in enumerate(steps):
        world.now_ms = max(0, world.now_ms + step.later_ms)
        if step.restarts:
            world.restart()
        known = world.known(step.key)
        taken = send(world.window, step.key, str(position), world.now_ms)
        if known is not None:
            assert taken == known
            continue
        if taken.message_id != str(position):
            # Kept longer, by numbers that were decided and never stored; never one not stored.
            assert taken in world.log
            continue
        if step.fate == "stored":
            assert all(taken.number > earlier.number for earlier in world.log)
            world.log.append(taken)
        elif step.fate == "refused":
            world.window.withdraw(taken)
        else:
            world.restart()
