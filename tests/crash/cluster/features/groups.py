"""Consumer groups: members over HTTP, at any broker, and of librdkafka, in both protocols.

An onlooker asks now and then, over HTTP and with Kafka's protocol, where the groups are.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from goqueue.client.http_api import HttpApi, HttpRefused
from tests.crash.cluster.features.calls import PATIENCE_S, AnyBroker, NotAnswered, any_http
from tests.crash.cluster.features.loads import PARTITIONS, Load, Surroundings, Worker
from tests.crash.cluster.features.reading import read_topic
from tests.crash.cluster.history import History, Log, Place
from tests.crash.cluster.load import CLASSIC, CLIENT, Reader

TOPIC: Final = "feed"
CLASSIC_GROUP: Final = "classic"
COOPERATIVE_GROUP: Final = "cooperative"
PLACES: Final[list[Place]] = [(TOPIC, partition) for partition in range(PARTITIONS)]
# A join waits until all members have joined again, as long as the slowest may take.
JOIN_S: Final = 15.0
REBALANCE_MS: Final = 6_000
SESSION_MS: Final = 6_000
POLL_MS: Final = 500
COMMIT_TRIES: Final = 4
ASK_S: Final = 5.0


class ConsumerGroups(Load):
    name: ClassVar[str] = "groups"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.feed = History()
        self.histories = {name: History() for name in (CLASSIC_GROUP, COOPERATIVE_GROUP)}
        self.joins: dict[str, int] = dict.fromkeys(self.histories, 0)
        self.looks = 0
        self._logs: dict[Place, Log] = {place: {} for place in PLACES}

    def prepare(self) -> None:
        self.make_topic(TOPIC)
        self.workers.append(_Feeder(self))
        bootstrap = self.around.bootstrap_servers
        protocols = {CLASSIC_GROUP: CLASSIC, COOPERATIVE_GROUP: {"group.protocol": "consumer"}}
        for group, history in self.histories.items():
            self.workers.append(Reader(bootstrap, history, [TOPIC], group, protocols[group]))
            self.worker(f"{group} over HTTP", _HttpMember(self, group).step, 0.1)
        self.worker("onlooker over HTTP", self._onlooker(), 0.3)
        self.workers += [_Onlooker(self, group) for group in self.histories]

    def _onlooker(self) -> Callable[[], None]:
        broker, chance = any_http(self.around.http_urls, self.calls, self.chance()), self.chance()

        def step() -> None:
            group, history = chance.choice(list(self.histories.items()))
            at_least = history.group_offsets()
            if not at_least:
                return
            found = _offsets(broker, group)
            self.note_offsets(group, found, at_least)

        return step

    def note_offsets(
        self, group: str, found: Mapping[Place, int | None], at_least: Mapping[Place, int]
    ) -> None:
        self.looks += 1
        for place, offset in at_least.items():
            self.histories[group].group_found(place, found.get(place) or 0, offset)

    # --- the end --------------------------------------------------------------------------

    def settle(self) -> None:
        self.end()
        for record in read_topic(self.around.bootstrap_servers, TOPIC):
            self._logs[TOPIC, record.partition][record.offset] = record.value or b""

    def violations(self) -> list[str]:
        found = [f"feed: {each}" for each in self.feed.check(self._logs, self._logs)]
        for group, history in self.histories.items():
            found += [f"{group}: {each}" for each in history.check(self._logs, self._logs)]
        return found

    def figures(self) -> dict[str, object]:
        return {
            "fed": self.feed.count,
            "looks at offsets": self.looks,
            "joins over HTTP": dict(self.joins),
            "committed": {
                name: sum(history.group_offsets().values())
                for name, history in self.histories.items()
            },
        }


def _offsets(broker: AnyBroker[HttpApi], group: str) -> dict[Place, int | None]:
    try:
        answer = broker.ask("read offsets", lambda api: api.get("groups", group, "offsets"))
    except HttpRefused as refusal:
        if refusal.reason != "group_id_not_found":
            raise
        return {}
    return {
        (each["topic"], each["partition"]): each["committedOffset"] for each in answer["offsets"]
    }


class _HttpMember:
    """What the guide for HTTP clients says: poll, commit, and on 409 commit and join again."""

    def __init__(self, load: ConsumerGroups, group: str) -> None:
        self._load = load
        self._group = group
        self._is_cooperative = group == COOPERATIVE_GROUP
        self._history = load.histories[group]
        urls = load.around.http_urls
        self._broker = any_http(urls, load.calls, load.chance())
        self._joining = any_http(urls, load.calls, load.chance(), JOIN_S)
        self._member_id: str | None = None
        self._is_in = False
        # The last answer that arrived: what went with a later one that did not comes again.
        self._after: int | None = None
        # Of what was delivered and is not committed.
        self._positions: dict[Place, int] = {}

    def step(self) -> None:
        try:
            if not self._is_in:
                self._join()
            answer = self._post("receive", {"max": 100, "timeout": POLL_MS, "after": self._after})
            self._after = answer["answer"]
            for message in answer["messages"]:
                place = (message["topic"], message["partition"])
                self._history.was_read(place, message["offset"], message["value"].encode())
                self._positions[place] = message["offset"] + 1
            self._commit()
            if answer["revoke"]:
                self._post("revoke", {})
        except HttpRefused as refusal:
            self._refused(refusal)

    def _join(self) -> None:
        body: dict[str, Any] = {
            "topics": [TOPIC],
            "offsetReset": "earliest",
            "rebalanceTimeoutMs": REBALANCE_MS,
        }
        path = ["groups", self._group, "join"]
        if self._is_cooperative:
            path.append("cooperative")
        else:
            body["sessionTimeoutMs"] = SESSION_MS
        if self._member_id is not None:
            body["memberId"] = self._member_id
        self._positions.clear()
        answer = self._joining.ask("join", lambda api: api.post(*path, body=body))
        self._member_id, self._is_in = answer["memberId"], True
        self._after = answer["answer"]
        self._load.joins[self._group] += 1

    def _commit(self) -> None:
        """Again, at any broker, until it is answered; else with the next ones."""
        if not self._positions:
            return
        body: dict[str, Any] = {}
        if self._is_cooperative:
            body["offsets"] = [
                {"topic": topic, "partition": partition, "offset": offset}
                for (topic, partition), offset in self._positions.items()
            ]
        # Else all that was delivered to it, as the guide has it.
        for _ in range(COMMIT_TRIES):
            try:
                answer = self._post("offsets", body)
            except NotAnswered:
                continue
            for each in answer["offsets"]:
                place = (each["topic"], each["partition"])
                if each["error"] is None and place in self._positions:
                    self._history.group_committed(place, self._positions[place])
            self._positions.clear()
            return

    def _post(self, what: str, body: dict[str, Any]) -> Any:
        body = {"memberId": self._member_id, **body}
        return self._broker.ask(what, lambda api: api.post("groups", self._group, what, body=body))

    def _refused(self, refusal: HttpRefused) -> None:
        if refusal.status != 409:
            raise refusal
        if refusal.reason == "rebalance_in_progress":
            try:
                self._commit()
            except HttpRefused:
                # The group has moved on: others read again what was not committed.
                self._positions.clear()
        elif not self._is_in:
            # Not even for joining is the id good any more.
            self._member_id = None
        self._is_in = False


class _Feeder(Worker):
    def __init__(self, load: ConsumerGroups) -> None:
        super().__init__("groups: feeder", self.work)
        self._load = load

    def work(self) -> None:
        producer = Producer(
            {
                **CLIENT,
                "bootstrap.servers": self._load.around.bootstrap_servers,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
            }
        )
        number = 0
        while not self.ended.is_set():
            for partition in range(PARTITIONS):
                value = b"%d-%d" % (partition, number)
                self._load.feed.sent((TOPIC, partition), value)
                producer.produce(TOPIC, value, partition=partition, on_delivery=self._stored)
            number += 1
            producer.poll(0.05)
            self.ended.wait(0.05)
        assert producer.flush(PATIENCE_S) == 0

    def _stored(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        offset = message.offset()
        told = offset if offset is not None and offset >= 0 else None
        place = (TOPIC, message.partition() or 0)
        self._load.feed.was_acknowledged(place, told, message.value() or b"")


class _Onlooker(Worker):
    """Asks with Kafka's protocol where a group is."""

    def __init__(self, load: ConsumerGroups, group: str) -> None:
        super().__init__(f"groups: onlooker of {group}", self.work)
        self._load = load
        self._group = group

    def work(self) -> None:
        consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": self._load.around.bootstrap_servers,
                "group.id": self._group,
            }
        )
        places = [TopicPartition(*place) for place in PLACES]
        try:
            while not self.ended.wait(0.5):
                at_least = self._load.histories[self._group].group_offsets()
                began = time.monotonic()
                try:
                    found = consumer.committed(places, ASK_S)
                except KafkaException as failure:
                    error: KafkaError = failure.args[0]
                    self._load.calls.failed("committed", error.name(), began, error.str())
                    continue
                offsets = {(each.topic, each.partition): max(each.offset, 0) for each in found}
                self._load.note_offsets(self._group, offsets, at_least)
        finally:
            consumer.close()
