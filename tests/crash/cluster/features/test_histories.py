"""Each rule of the histories is broken once, and found."""

from collections.abc import Callable

import pytest

from tests.crash.cluster.features.delay_history import (
    LATE_MAX_MS,
    SESSION_MS,
    Arrival,
    Cancelling,
    DelayHistory,
)
from tests.crash.cluster.features.fifo_history import FifoHistory, Number
from tests.crash.cluster.features.queue_history import QueueHistory, not_older, the_next
from tests.crash.cluster.features.schema_history import SchemaHistory, Versions

# --- queues -------------------------------------------------------------------------------


def acknowledge(history: QueueHistory, value: str, count: int, at: float | None) -> None:
    history.acknowledges(value, count, 2.5).answered_at = at


def good_queue() -> QueueHistory:
    """`a` was done at once, `b` the second time, of `c` nobody knows, `d` may not be stored."""
    history = QueueHistory("queue")
    history.sent.update("abcd")
    for value in "abc":
        history.was_stored(value)
        history.was_delivered(value, 1, 1.0, 2.0, place=(0, ord(value)))
    acknowledge(history, "a", 1, 3.0)
    history.refused(history.acknowledges("b", 1, 2.5))
    history.was_delivered("b", 2, 4.0, 5.0, place=(0, ord("b")))
    acknowledge(history, "b", 2, 6.0)
    acknowledge(history, "c", 1, None)
    return history


def test_a_good_queue() -> None:
    history = good_queue()
    assert history.violations() == []
    # Maybe it did not count, then it comes again; and what was not stored may come.
    history.was_delivered("c", 2, 4.0, 5.0, place=(0, ord("c")))
    history.was_delivered("d", 1, 4.0, 5.0)
    # It was on its way before the acknowledgement was answered.
    history.was_delivered("a", 1, 2.9, 3.1, place=(0, ord("a")))
    assert history.violations() == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda h: h.was_delivered("x", 1, 1.0, 2.0), "'x' was delivered, and never sent"),
        (lambda h: h.was_delivered("a", 2, 3.1, 4.0), "'a' returned (delivery 2 after delivery 1"),
        (lambda h: acknowledge(h, "a", 2, 9.0), "'a' was acknowledged twice, by deliveries [1, 2]"),
        (lambda h: h.was_delivered("c", 1, 1.0, 2.0, place=(1, 0)), "'c' was sent once and is at"),
        (lambda h: h.was_stored("d"), "'d' is lost: stored, not acknowledged, never delivered"),
        (
            lambda h: (h.was_stored("d"), h.was_delivered("d", 1, 1.0, 2.0)),
            "'d' is lost: stored, not acknowledged, delivered before and not again",
        ),
    ],
)
def test_a_queue_that_cannot_be(fault: Callable[[QueueHistory], object], words: str) -> None:
    history = good_queue()
    fault(history)
    [found] = history.violations()
    assert words in found


def test_what_something_else_stored_again_may_come_again() -> None:
    history = good_queue()
    history.was_delivered("a", 1, 7.0, 8.0, place=(2, 0))
    assert len(history.violations()) == 2
    assert history.violations(copied={"a"}) == []


def test_a_client_may_show_late_what_it_was_given_before() -> None:
    history = good_queue()
    history.returns = not_older
    history.was_delivered("b", 1, 7.0, 8.0, place=(0, ord("b")))
    assert history.violations() == []
    history.was_delivered("b", 3, 7.0, 8.0, place=(0, ord("b")))
    assert len(history.violations()) == 1


def test_deleting_with_an_old_receipt_deletes_nothing() -> None:
    history = good_queue()
    history.returns = the_next
    # Somebody who was not answered had the second delivery when the first was deleted.
    history.was_delivered("a", 3, 4.0, 5.0, place=(0, ord("a")))
    assert history.violations() == []
    history.was_delivered("a", 2, 4.0, 5.0, place=(0, ord("a")))
    assert len(history.violations()) == 1


# --- FIFO queues --------------------------------------------------------------------------

G = [Number("g", n) for n in range(4)]


def good_fifo() -> FifoHistory:
    """Three numbers came together; two were deleted, and the third came again."""
    history = FifoHistory("fifo")
    for number in G[:3]:
        history.was_stored(number, f"id-{number.n}", 10 + number.n)
    history.was_answered(G[:3], 1.0, 2.0)
    for number in G[:2]:
        history.deletes(number, 3.0).answered_at = 4.0
    history.refused(history.deletes(G[2], 5.0))
    history.was_answered([G[2]], 6.0, 7.0)
    history.deletes(G[2], 8.0).answered_at = 9.0
    return history


def test_a_good_fifo_queue() -> None:
    history = good_fifo()
    history.was_stored(G[0], "id-0", 10)
    # Of another group, and of this one while nobody knows whether the last deletion counted.
    history.was_stored(Number("h", 0), "id-h", 5)
    history.was_stored(G[3], "id-3", 20)
    history.was_answered([Number("h", 0), G[3]], 8.1, 8.2)
    history.deletes(Number("h", 0), 8.5)
    history.deletes(G[3], 8.5)
    assert history.violations() == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda h: h.was_stored(G[1], "id-9", 11), "is stored twice"),
        (lambda h: h.was_stored(G[1], "id-1", 12), "is stored twice"),
        (
            lambda h: (h.was_stored(G[3], "id-3", 12), h.deletes(G[3], 9.0)),
            "n=3) has sequence 12 after 12",
        ),
        (lambda h: h.was_answered([G[2]], 1.0, 2.5), "n=2) came before Number(group='g', n=0)"),
        (lambda h: h.was_answered([G[2], G[1]], 1.0, 3.0), "n=2) came before"),
        (lambda h: h.was_answered([G[0]], 4.5, 5.0), "n=0) returned 0.50 s after its end"),
        (lambda h: h.was_stored(G[3], "id-3", 20), "n=3) is lost"),
    ],
)
def test_a_fifo_queue_that_cannot_be(fault: Callable[[FifoHistory], object], words: str) -> None:
    history = good_fifo()
    fault(history)
    found = history.violations()
    assert found
    assert all(words in each for each in found[:1]), found


# --- delays -------------------------------------------------------------------------------


def arrive(history: DelayHistory, value: str, at_ms: int, offset: int | None = None) -> None:
    place = (0, ord(value) if offset is None else offset)
    history.has_arrived(value, Arrival(place, at_ms - 1, at_ms))


def good_delays() -> DelayHistory:
    """All due at 1,000: `a` came, `b` was cancelled, of `c` and `d` nobody knows."""
    history = DelayHistory()
    for value in "abc":
        sent = history.sends(value, 990)
        sent.due_ms, sent.taken_at_ms = 1_000, 100
    history.sends("d", 990)
    arrive(history, "a", 1_001)
    # Read again at the same place.
    arrive(history, "a", 1_001)
    history.delayed["b"].cancelling = Cancelling.DONE
    history.delayed["c"].cancelling = Cancelling.UNKNOWN
    return history


def test_good_delays() -> None:
    history = good_delays()
    assert history.violations() == []
    arrive(history, "c", 1_001 + LATE_MAX_MS - 2)
    arrive(history, "d", 991)
    assert history.violations() == []
    # Sent at 950, and taken when it was due: it is stored as other messages are.
    sent = history.sends("e", 1_000)
    sent.due_ms, sent.taken_at_ms = 1_000, 1_200
    history.has_arrived("e", Arrival((0, 7), 950, 1_200))
    assert history.violations() == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda h: arrive(h, "x", 2_000), "'x' arrived, and was never sent"),
        (lambda h: arrive(h, "a", 1_001, offset=9), "'a' arrived twice"),
        (lambda h: arrive(h, "c", 1_000), "'c' is 1 ms early"),
        (lambda h: arrive(h, "d", 985), "'d' is 5 ms early"),
        (lambda h: h.arrivals.pop("a"), "'a' is lost"),
        (lambda h: arrive(h, "b", 1_001), "'b' arrived, and was cancelled"),
        (lambda h: arrive(h, "c", 1_000 + LATE_MAX_MS), "'c' is 5000 ms late"),
    ],
)
def test_delays_that_cannot_be(fault: Callable[[DelayHistory], object], words: str) -> None:
    history = good_delays()
    fault(history)
    [found] = history.violations()
    assert words in found


def test_a_pause_may_cost_a_session_more() -> None:
    history = good_delays()
    history.pauses_ms.append((900, 1_100))
    arrive(history, "c", 999 + LATE_MAX_MS + SESSION_MS)
    assert history.violations() == []
    history.pauses_ms[:] = [(0, 999)]
    assert len(history.violations()) == 1


# --- schemas ------------------------------------------------------------------------------


def good_schemas() -> SchemaHistory:
    history = SchemaHistory()
    history.was_registered("s", "one", 1)
    history.was_registered("t", "one", 1)
    history.was_registered("s", "two", 2)
    history.version_is("s", 1, 1, "when read")
    return history


EVERYWHERE: Versions = {("s", 1): (1, "one"), ("s", 2): (2, "two"), ("t", 1): (1, "one")}


def test_good_schemas() -> None:
    assert good_schemas().violations({"a": EVERYWHERE, "b": EVERYWHERE}) == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda h: h.id_means(1, "uno", "when read"), "id 1 was one and is uno when read"),
        (lambda h: h.was_registered("s", "two", 3), "two has the ids 2 and 3"),
        (lambda h: h.version_is("s", 1, 2, "when read"), "s version 1 was id 1 and is 2"),
    ],
)
def test_schemas_that_cannot_be(fault: Callable[[SchemaHistory], object], words: str) -> None:
    history = good_schemas()
    fault(history)
    [found] = history.violations({"a": EVERYWHERE})
    assert words in found


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ({**EVERYWHERE, ("s", 2): (1, "one")}, "a does not know two of s"),
        ({**EVERYWHERE, ("s", 3): (2, "drei")}, "a has drei for id 2"),
        ({("s", 2): (2, "two"), ("t", 1): (1, "one")}, "a has no version 1 of s"),
        ({**EVERYWHERE, ("s", 1): (7, "one")}, "a has id 7 for s 1"),
    ],
)
def test_a_broker_that_has_other_schemas(versions: Versions, words: str) -> None:
    found = good_schemas().violations({"a": versions})
    assert any(words in each for each in found), found
