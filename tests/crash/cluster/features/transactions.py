"""Transactions over HTTP, at any broker, and of librdkafka; both write to several partitions.

With each transaction over HTTP goes an offset of a group: its number. So the group's offset is
that of the last transaction that was committed.
"""

import random
import time
from collections.abc import Callable
from typing import Any, ClassVar, Final

from goqueue.client.http_api import HttpApi, HttpRefused
from tests.crash.cluster.features.calls import AnyBroker, NotAnswered, any_http
from tests.crash.cluster.features.loads import PARTITIONS, Load, Surroundings
from tests.crash.cluster.features.reading import read_topic
from tests.crash.cluster.history import History, Log, Outcome, Place, Transaction
from tests.crash.cluster.load import LEDGER, Booker

TOPIC: Final = "bookings"
GROUP: Final = "booked"
TRANSACTIONAL_ID: Final = "booker-http"
TIMEOUT_MS: Final = 20_000


class Transactions(Load):
    name: ClassVar[str] = "transactions"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.history = History()
        self.kafka_history = History()
        self._found: dict[Place, Log] = {}
        # By word of a commit; and what is the most that can be.
        self._offset_committed = 0
        self._offset_maybe = 0
        self._told: list[str] = []
        self._number = 0

    def prepare(self) -> None:
        for topic in (TOPIC, LEDGER):
            self.make_topic(topic)
        self._booker = Booker(
            self.around.bootstrap_servers, self.kafka_history, self._seeds.randrange(2**31)
        )
        self.workers.append(self._booker)
        self.worker("over HTTP", self._http_booker(), 0.05)
        broker = any_http(self.around.http_urls, self.calls, self.chance())
        self.worker("offset", lambda: self._look_at_offset(broker), 0.5)

    # --- work -----------------------------------------------------------------------------

    def _http_booker(self) -> Callable[[], None]:
        broker = any_http(self.around.http_urls, self.calls, self.chance())
        chance = self.chance()
        producer: dict[str, Any] = {}

        def step() -> None:
            if not producer:
                body = {"transactionalId": TRANSACTIONAL_ID, "transactionTimeoutMs": TIMEOUT_MS}
                producer.update(
                    broker.insist("init", lambda api: api.post("producers", "init", body=body))
                )
            try:
                self._book(broker, chance, producer)
            except HttpRefused as refusal:
                # Timed out, or fenced by what became of an earlier request: begin anew.
                self.calls.failed("transaction", refusal.reason, time.monotonic(), refusal.message)
                producer.clear()

        return step

    def _book(
        self, broker: AnyBroker[HttpApi], chance: random.Random, producer: dict[str, Any]
    ) -> None:
        self._end(broker, producer, "begin")
        transaction = self.history.began()
        self._number += 1
        number = self._number
        try:
            for _ in range(chance.randint(1, 3)):
                self._publish(broker, chance, producer, transaction)
            self._send_offset(broker, producer, number)
        except NotAnswered:
            self._end(broker, producer, "abort")
            transaction.outcome = Outcome.ABORTED
            return
        if chance.random() < 0.2:
            self._end(broker, producer, "abort")
            transaction.outcome = Outcome.ABORTED
            return
        self._offset_maybe = number
        state = self._end(broker, producer, "commit")
        if state in ("CompleteCommit", "PrepareCommit"):
            transaction.outcome = Outcome.COMMITTED
            self._offset_committed = number
        else:
            self._told.append(f"transactions: a commit was answered with {state}")

    def _end(self, broker: AnyBroker[HttpApi], producer: dict[str, Any], how: str) -> str:
        """`begin`, `commit` and `abort` may be repeated, so they are, until they are answered."""
        body = dict(producer)
        answer = broker.insist(how, lambda api: api.post("transactions", how, body=body))
        producer.update(producerId=answer["producerId"], epoch=answer["epoch"])
        state: str = answer["state"]
        return state

    def _publish(
        self,
        broker: AnyBroker[HttpApi],
        chance: random.Random,
        producer: dict[str, Any],
        transaction: Transaction,
    ) -> None:
        partitions = [chance.randrange(PARTITIONS) for _ in range(chance.randint(1, 3))]
        messages = []
        for partition in partitions:
            value = f"b{self._number}-{len(transaction.values)}"
            transaction.values.append(((TOPIC, partition), value.encode()))
            messages.append({"value": value, "partition": partition})
        body = {**producer, "topic": TOPIC, "messages": messages}
        broker.ask("publish", lambda api: api.post("transactions", "publish", body=body))

    def _send_offset(
        self, broker: AnyBroker[HttpApi], producer: dict[str, Any], number: int
    ) -> None:
        offsets = [{"topic": TOPIC, "partition": 0, "offset": number}]
        body = {**producer, "group": GROUP, "offsets": offsets}
        broker.ask("offsets", lambda api: api.post("transactions", "offsets", body=body))

    def _look_at_offset(self, broker: AnyBroker[HttpApi]) -> None:
        at_least = self._offset_committed
        if not at_least:
            return
        found = broker.ask("read offset", lambda api: api.get("groups", GROUP, "offsets"))
        offset = max((each["committedOffset"] or 0 for each in found["offsets"]), default=0)
        if not at_least <= offset <= self._offset_maybe:
            self._told.append(
                f"transactions: the group's offset is {offset}; {at_least} was committed, "
                f"{self._offset_maybe} is the last that may be"
            )

    # --- the end --------------------------------------------------------------------------

    def settle(self) -> None:
        self.end()
        for topic in (TOPIC, LEDGER):
            for record in read_topic(self.around.bootstrap_servers, topic):
                log = self._found.setdefault((topic, record.partition), {})
                log[record.offset] = record.value or b""

    def violations(self) -> list[str]:
        found = list(self._told)
        for topic, history in ((TOPIC, self.history), (LEDGER, self.kafka_history)):
            logs = {place: log for place, log in self._found.items() if place[0] == topic}
            found += history.check(logs, logs)
        return found

    def figures(self) -> dict[str, object]:
        return {
            door: {
                outcome.value: sum(each.outcome is outcome for each in history.transactions)
                for outcome in Outcome
            }
            for door, history in (("http", self.history), ("kafka", self.kafka_history))
        }
