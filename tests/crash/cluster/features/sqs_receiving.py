"""Receiving from a queue of SQS of either kind, and noticing that nothing comes any more."""

import time
from typing import Any, Final, NamedTuple

from tests.crash.cluster.features.calls import AnyBroker

# How long nothing may come before a queue counts as empty: leases, and then some.
QUIET_S: Final = 8.0


class Received(NamedTuple):
    messages: list[dict[str, Any]]
    asked_at: float
    came_at: float


class SqsReceiving:
    """Of one queue, by all its readers. Messages come with one of their attributes."""

    def __init__(self, url: str, *, limit: int, attribute: str) -> None:
        self._asked = {
            "QueueUrl": url,
            "MaxNumberOfMessages": limit,
            "WaitTimeSeconds": 1,
            "MessageSystemAttributeNames": [attribute],
        }
        self._last_message_at = time.monotonic()

    def receive(self, broker: AnyBroker[Any]) -> Received:
        asked_at = time.monotonic()
        answer = broker.ask("receive", lambda sqs: sqs.receive_message(**self._asked))
        came_at = time.monotonic()
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        if messages:
            self._last_message_at = came_at
        return Received(messages, asked_at, came_at)

    @property
    def is_quiet(self) -> bool:
        return time.monotonic() - self._last_message_at > QUIET_S
