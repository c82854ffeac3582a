"""A topic as a work queue over HTTP: two groups, each of which must get everything once done."""

import random
import time
from functools import partial
from itertools import count
from typing import Any, ClassVar, Final

from goqueue.client.http_api import HttpApi
from tests.crash.cluster.features.calls import RETRY_S, AnyBroker, NotAnswered, any_http
from tests.crash.cluster.features.loads import Load, Surroundings
from tests.crash.cluster.features.queue_history import Acknowledgement, QueueHistory

TOPIC: Final = "jobs"
GROUPS: Final = ("packing", "billing")
# Short, so that what a reader leaves lying comes again within a round.
LEASE_MS: Final = 3_000
WAIT_MS: Final = 500
SETTLE_TRIES: Final = 6


class HttpQueue(Load):
    name: ClassVar[str] = "http"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.histories = {group: QueueHistory(f"http {group}") for group in GROUPS}
        self._numbers = count()
        self._is_settling = False

    def prepare(self) -> None:
        self.make_topic(TOPIC, queue_max_deliveries="0", queue_retry_backoff_ms="100")
        chance = self.chance()
        broker = self._brokers()
        self._publisher = self.worker("publisher", lambda: self._publish(broker, chance), 0.1)
        for group in GROUPS:
            self.worker(group, self._reader(group), 0.05)

    def _brokers(self) -> AnyBroker[HttpApi]:
        return any_http(self.around.http_urls, self.calls, self.chance())

    # --- work -----------------------------------------------------------------------------

    def _publish(self, broker: AnyBroker[HttpApi], chance: random.Random) -> None:
        """Each value is sent once: a request that fails is not repeated."""
        values = [f"job-{next(self._numbers)}" for _ in range(chance.randint(1, 5))]
        for history in self.histories.values():
            history.sent.update(values)
        messages = [{"value": value, "key": chance.choice((None, value))} for value in values]
        body = {"messages": messages} if len(messages) > 1 else messages[0]
        broker.ask("publish", lambda api: api.post("topics", TOPIC, "messages", body=body))
        for history in self.histories.values():
            for value in values:
                history.was_stored(value)

    def _reader(self, group: str) -> Any:
        broker, chance = self._brokers(), self.chance()

        def step() -> None:
            messages = self._receive(broker, group)
            # Some fail, some are worked on for longer, some are left lying.
            chosen = {"ack": messages, "nack": [], "extend": [], "leave": []}
            if not self._is_settling:
                chosen = {kind: [] for kind in chosen}
                for message in messages:
                    [kind] = chance.choices(list(chosen), (80, 10, 5, 5))
                    chosen[kind].append(message)
            self._give_back(broker, group, chosen["nack"])
            self._extend(broker, group, chosen["extend"])
            self._acknowledge(broker, group, chosen["ack"] + chosen["extend"])

        return step

    def _receive(self, broker: AnyBroker[HttpApi], group: str) -> list[dict[str, Any]]:
        body = {
            "topic": TOPIC,
            "max": 20,
            "timeout": WAIT_MS,
            "visibility": LEASE_MS,
            "start": "earliest",
        }
        asked_at = time.monotonic()
        answer = broker.ask("receive", lambda api: api.post("groups", group, "receive", body=body))
        came_at = time.monotonic()
        messages: list[dict[str, Any]] = answer["messages"]
        for message in messages:
            place = (message["partition"], message["offset"])
            self.histories[group].was_delivered(
                message["value"], message["deliveryCount"], asked_at, came_at, place
            )
        return messages

    def _give_back(
        self, broker: AnyBroker[HttpApi], group: str, messages: list[dict[str, Any]]
    ) -> None:
        if messages:
            body = {"group": group, "receipts": [each["receipt"] for each in messages]}
            broker.ask("nack", lambda api: api.post("messages", "nack", body=body))

    def _extend(
        self, broker: AnyBroker[HttpApi], group: str, messages: list[dict[str, Any]]
    ) -> None:
        if messages:
            receipts = [each["receipt"] for each in messages]
            body = {"group": group, "receipts": receipts, "timeout": 2 * LEASE_MS}
            broker.ask("extend", lambda api: api.post("messages", "visibility", body=body))

    def _acknowledge(
        self, broker: AnyBroker[HttpApi], group: str, messages: list[dict[str, Any]]
    ) -> None:
        """With the same receipts at any broker, until it is answered or the lease is over."""
        if not messages:
            return
        history = self.histories[group]
        now = time.monotonic()
        sent = [
            history.acknowledges(each["value"], each["deliveryCount"], now) for each in messages
        ]
        left = list(zip(sent, (each["receipt"] for each in messages), strict=True))
        for attempt in range(SETTLE_TRIES):
            body = {"group": group, "receipts": [receipt for _, receipt in left]}
            try:
                results = broker.ask("ack", partial(_post_ack, body))["results"]
            except NotAnswered:
                time.sleep(2 * RETRY_S)
                continue
            self._note(history, [each for each, _ in left], results, is_first=attempt == 0)
            left = [
                each
                for each, result in zip(left, results, strict=True)
                if _is_open(result["error"])
            ]
            if not left:
                return
            time.sleep(2 * RETRY_S)

    def _note(
        self,
        history: QueueHistory,
        sent: list[Acknowledgement],
        results: list[dict[str, Any]],
        *,
        is_first: bool,
    ) -> None:
        now = time.monotonic()
        for acknowledgement, result in zip(sent, results, strict=True):
            if result["error"] is None:
                acknowledgement.answered_at = now
            elif is_first and not _is_open(result["error"]):
                history.refused(acknowledgement)
            # After a try without an answer: that one may have counted.

    # --- the end --------------------------------------------------------------------------

    def settle(self) -> None:
        self.end(self._publisher)
        self._is_settling = True
        self.until(lambda: not any(each.open_values() for each in self.histories.values()))
        # Whatever should not come would come when the last leases are over.
        time.sleep(2 * LEASE_MS / 1000)
        self.end()

    def violations(self) -> list[str]:
        return [found for each in self.histories.values() for found in each.violations()]

    def figures(self) -> dict[str, object]:
        return {group: history.figures() for group, history in self.histories.items()}


def _post_ack(body: dict[str, Any], api: HttpApi) -> Any:
    return api.post("messages", "ack", body=body)


def _is_open(error: str | None) -> bool:
    """Whether nobody could tell what became of a receipt, because its leader was away."""
    return error is not None and not error.startswith("receipt_")
