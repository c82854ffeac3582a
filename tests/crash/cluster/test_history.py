"""The checker of histories finds each kind of violation."""

from collections.abc import Callable

import pytest

from tests.crash.cluster.history import History, Log, Outcome, Place

HERE: Place = ("log", 0)
LOG: Log = {0: b"a", 1: b"b", 3: b"c"}


def good() -> History:
    history = History()
    for offset, value in LOG.items():
        history.sent(HERE, value)
        history.was_acknowledged(HERE, offset, value)
        history.was_read(HERE, offset, value)
    history.group_committed(HERE, 4)
    for outcome in Outcome:
        transaction = history.began()
        transaction.outcome = outcome
        if outcome is not Outcome.ABORTED:
            transaction.values = [(HERE, b"a"), (HERE, b"c")]
    return history


def test_a_good_history_is_good() -> None:
    history = good()
    assert history.check({HERE: LOG}, {HERE: LOG}) == []
    # What was not acknowledged may be there, or not.
    history.sent(HERE, b"d")
    assert history.check({HERE: {**LOG, 4: b"d"}}, {HERE: {**LOG, 4: b"d"}}) == []


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ({0: b"a", 1: b"b"}, "was acknowledged at 3"),
        ({0: b"a", 1: b"x", 3: b"c"}, "where there is b'x'"),
        ({**LOG, 4: b"a"}, "twice"),
        ({0: b"a", 1: b"c", 3: b"b"}, "out of order"),
    ],
)
def test_a_log_that_does_not_fit(log: Log, words: str) -> None:
    assert any(words in found for found in good().check({HERE: log}, {HERE: log}))


def aborted_read(history: History) -> None:
    history.transactions[0].outcome = Outcome.ABORTED


def torn(history: History) -> None:
    history.transactions[2].values.append((HERE, b"gone"))


def stepped_back(history: History) -> None:
    history.group_found(HERE, 3, at_least=history.group_offsets()[HERE])


def skipped(history: History) -> None:
    history._seen[HERE].pop(1)


def lost_somewhere(history: History) -> None:
    history.was_acknowledged(HERE, None, b"a")
    history.was_acknowledged(HERE, None, b"gone")


def two_values(history: History) -> None:
    history.was_read(HERE, 1, b"x")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (aborted_read, "transaction that is aborted has 2 of 2"),
        (torn, "transaction that is unknown has 2 of 3"),
        (stepped_back, "stepped back from 4 to 3"),
        (skipped, "never saw [1]"),
        (lost_somewhere, "b'gone' was acknowledged as stored before"),
        (two_values, "offset 1 is b'b' and b'x'"),
    ],
)
def test_clients_that_were_told_what_cannot_be(
    fault: Callable[[History], None], words: str
) -> None:
    history = good()
    fault(history)
    assert any(words in found for found in history.check({HERE: LOG}, {HERE: LOG}))
