"""Clients fetch again at once, whatever they are told: a refusal that is known waits."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.records import NewRecord
from goqueue.model.rights import Verb
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.queues import open_queues
from tests.rules import Grant, Granted, group, topic
from tests.unit.doors.kafka.group_member import until
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

# Nobody waits that long: below it, what was asked is answered for another reason.
WAIT = timedelta(hours=1)
REFUSED = ErrorCode.topic_authorization_failed
READS_A, READS_B = topic("a", Verb.READ), topic("b", Verb.READ)


@pytest.fixture
def settings() -> dict[str, str]:
    return {"fetch.max.wait.ms": str(WAIT // timedelta(milliseconds=1))}


class Place:
    """Topics a and b, and a client whose rights are changed."""

    def __init__(self, broker: Node) -> None:
        self.broker = broker
        self.rules = Granted(group("g", Verb.READ))
        self.service = BrokerService(broker, self.rules)
        self.waits = self.service.log._access.waits

    async def fill(self) -> None:
        # It is made by this.
        await BrokerService(self.broker).share_groups.alter_offsets(ANYONE, "g", [])
        for name in ("a", "b"):
            await BrokerService(self.broker).topics.create(
                ANYONE, NewTopic(name=name, partitions=1)
            )
            await open_queues(self.broker, "g", name)

    def have(self, *grants: Grant) -> None:
        self.rules.grants = {group("g", Verb.READ), *grants}
        for told in self.broker.security.rights_listeners:
            told()

    @property
    def is_waited(self) -> bool:
        return bool(self.waits._waiting or self.waits.fetching)

    def named(self, name: str, version: int) -> dict[str, Any]:
        return {"topic_id": self.broker.topic(name).id} if version >= 13 else {"topic": name}


@pytest.fixture
async def place(broker: Node) -> Place:
    made = Place(broker)
    await made.fill()
    return made


@pytest.fixture
async def door(place: Place) -> AsyncIterator[KafkaDoor]:
    opened = KafkaDoor(place.service, place.broker.config)
    host, port = await opened.start()
    await place.broker.announce(host, port, 0)
    yield opened
    await opened.stop()


class Reader:
    """Fetches of one session; `wait` sends one, and returns when it waits."""

    def __init__(self, client: WireClient, place: Place, name: str, version: int) -> None:
        self.client = client
        self.place = place
        self.name = name
        self.version = version
        self.session: dict[str, Any] = {}
        self.epoch = 0

    def request(self, *topics: str) -> dict[str, Any]:
        part: dict[str, Any]
        limits = {"max_wait": WAIT, "min_bytes": 1, "max_bytes": 1_000_000}
        if self.name == "fetch":
            part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10_000}
            wanted = [
                {**self.place.named(name, self.version), "partitions": [part]} for name in topics
            ]
            session = {**self.session, "session_epoch": self.epoch}
        else:
            part = {"partition_index": 0, "acknowledgement_batches": []}
            wanted = [
                {"topic_id": self.place.broker.topic(name).id, "partitions": [part]}
                for name in topics
            ]
            session = {"group_id": "g", "member_id": "m", "share_session_epoch": self.epoch}
            limits |= {"max_records": 10, "batch_size": 10}
        self.epoch += 1
        return {"topics": wanted, **session, **limits}

    async def fetch(self, *topics: str) -> dict[str, Any]:
        return self.answer(await self.client.call(self.name, self.version, **self.request(*topics)))

    def send(self, *topics: str) -> "asyncio.Task[dict[str, Any]]":
        expected = self.client.send(self.name, self.version, **self.request(*topics))

        async def receive() -> dict[str, Any]:
            return self.answer(await self.client.receive(*expected))

        return asyncio.create_task(receive())

    async def wait(self, *topics: str) -> "asyncio.Task[dict[str, Any]]":
        answer = self.send(*topics)

        async def is_waited() -> bool:
            return self.place.is_waited or answer.done()

        await until(is_waited)
        assert not answer.done(), answer.result()
        return answer

    def answer(self, answer: Any) -> dict[str, Any]:
        assert answer.error_code is ErrorCode.none, answer
        if self.name == "fetch":
            self.session = {"session_id": answer.session_id}
        names = {self.place.broker.topic(name).id: name for name in ("a", "b")}
        found: dict[str, Any] = {}
        for each in answer.responses:
            (part,) = each.partitions
            name = getattr(each, "topic", None) or names[each.topic_id]
            assert name not in found
            found[name] = part
        return found


@pytest.fixture(params=[("fetch", 12), ("fetch", 13), ("fetch", 18), ("share_fetch", 2)])
def reader(request: pytest.FixtureRequest, client: WireClient, place: Place) -> Reader:
    return Reader(client, place, *request.param)


def codes(answer: dict[str, Any]) -> dict[str, ErrorCode]:
    return {name: part.error_code for name, part in answer.items()}


async def test_it_is_told_at_once_and_then_waits_until_the_right_is_given(
    reader: Reader, place: Place
) -> None:
    await publish(place.broker, "a", [NewRecord(value=b"canary")])
    assert codes(await reader.fetch("a")) == {"a": REFUSED}
    waiting = await reader.wait()
    place.have(READS_A)
    answer = await waiting
    if not answer or answer["a"].error_code is REFUSED:
        # It was told that something changed; what it is, it asks for.
        answer = await reader.fetch()
    assert b"canary" in answer["a"].records


async def test_a_wait_that_nothing_ends_tells_of_it_again(
    reader: Reader, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert codes(await reader.fetch("a")) == {"a": REFUSED}
    monkeypatch.setattr("tests.unit.doors.kafka.test_told_refusals.WAIT", timedelta(0))
    assert codes(await reader.fetch()) == {"a": REFUSED}


async def test_records_of_another_topic_end_the_wait(reader: Reader, place: Place) -> None:
    place.have(READS_B)
    answer = await reader.fetch("a", "b")
    assert answer["a"].error_code is REFUSED
    waiting = await reader.wait()
    await publish(place.broker, "b", [NewRecord(value=b"canary")])
    answer = await waiting
    assert b"canary" in answer["b"].records
    assert answer["a"].error_code is REFUSED


async def test_a_right_that_goes_meanwhile_is_told_at_once(reader: Reader, place: Place) -> None:
    place.have(READS_B)
    await reader.fetch("a", "b")
    waiting = await reader.wait()
    place.have()
    answer = await waiting
    if answer.get("b") is None or answer["b"].error_code is not REFUSED:
        answer = await reader.fetch()
    assert codes(answer) == {"a": REFUSED, "b": REFUSED}
    # It knows of both now.
    waiting = await reader.wait()
    place.have(READS_A, READS_B)
    await publish(place.broker, "b", [NewRecord(value=b"canary")])
    await waiting


async def test_a_partition_that_is_added_is_told_at_once(reader: Reader, place: Place) -> None:
    assert codes(await reader.fetch("a")) == {"a": REFUSED}
    answer = await reader.fetch("b")
    assert answer["b"].error_code is REFUSED


async def test_other_changes_of_rules_do_not_make_it_say_anything_twice(
    reader: Reader, place: Place
) -> None:
    place.have(READS_B)
    await reader.fetch("a", "b")
    place.have(READS_B, topic("c", Verb.READ))
    waiting = await reader.wait()
    await publish(place.broker, "b", [NewRecord(value=b"canary")])
    # `Reader.answer` would see a partition that is there twice.
    assert codes(await waiting) == {"a": REFUSED, "b": ErrorCode.none}
