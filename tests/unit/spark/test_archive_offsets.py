"""Telling the broker what is archived, while it is away for a moment."""

from collections.abc import Iterator

import pytest

from goqueue.client.errors import BrokerUnreachable, RequestRefused
from goqueue.model.errors import GoQueueError
from goqueue.spark.archive import archive as archiving
from goqueue.spark.archive.archive import Archive, publish_offsets

ARCHIVE = Archive(
    bootstrap_servers="127.0.0.1:1", topic="orders", table="t", group="g", checkpoint="c"
)
AWAY = BrokerUnreachable("away")
LOADING = RequestRefused("coordinator load in progress", 14)
FORBIDDEN = RequestRefused("group authorization failed", 30)


def _fail_with(monkeypatch: pytest.MonkeyPatch, *failures: GoQueueError) -> list[object]:
    committed: list[object] = []
    left: Iterator[GoQueueError] = iter(failures)

    def commit_offsets(*given: object) -> None:
        failure = next(left, None)
        if failure is not None:
            raise failure
        committed.append(given[-2])

    monkeypatch.setattr(archiving, "commit_offsets", commit_offsets)
    monkeypatch.setattr("goqueue.client.patience.time.sleep", lambda _: None)
    return committed


def test_a_broker_that_starts_again_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    committed = _fail_with(monkeypatch, AWAY, AWAY, LOADING)
    publish_offsets(ARCHIVE, {0: 10})
    assert committed == [{("orders", 0): 10}]


def test_a_refusal_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    committed = _fail_with(monkeypatch, FORBIDDEN)
    with pytest.raises(RequestRefused, match="authorization"):
        publish_offsets(ARCHIVE, {0: 10})
    assert committed == []
