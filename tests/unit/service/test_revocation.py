"""Rights that are taken away count at once: for sessions that go on, and for those who wait."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from dataclasses import replace
from typing import Any

import pytest

from goqueue.broker.node import Node
from goqueue.broker.partitions.ready_list import ReadyList
from goqueue.broker.queues.share import fetching
from goqueue.eager import begin
from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.errors import GroupAccessDenied, TopicAccessDenied
from goqueue.model.groups.hosted_members import CooperativeJoin, MemberPoll, OffsetReset
from goqueue.model.groups.messages import Client
from goqueue.model.log import FetchPart, Isolation
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.share import ShareMember, SharePart
from goqueue.model.records import NewRecord
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.rules import Pattern, Rule, RuleFilter
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.publishing import publish
from tests.queues import open_queues, share_fetch
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

ALICE = Caller(principal=Principal("User", "alice"), door=Door.KAFKA, client_id="c")
WAIT_MS = 60_000
LIMITS: dict[str, Any] = {
    "max_wait_ms": WAIT_MS,
    "min_bytes": 1,
    "max_bytes": 1_000_000,
    "isolation": Isolation.READ_UNCOMMITTED,
}
# A wait that is not ended would last a minute.
SOON_S = 5
# Below the time after which a lock ends by itself.
LOCK_S = 20


class Place:
    """A broker with two topics that alice may read, and those who decide about her."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.service = BrokerService(node, node.security.rules)
        self._unbound = BrokerService(node)

    async def fill(self) -> None:
        for name in ("orders", "other"):
            await self._unbound.topics.create(ANYONE, NewTopic(name=name, partitions=1))
        for resource, name in (
            (Resource.TOPIC, "orders"),
            (Resource.TOPIC, "other"),
            (Resource.GROUP, "g"),
        ):
            rule = Rule(resource=resource, name=name, principal="User:alice", verb=Verb.READ)
            await self._unbound.rules.add(ANYONE, [rule])

    async def revoke(self, name: str) -> None:
        removed = await self._unbound.rules.remove(ANYONE, [RuleFilter(name=name)])
        assert len(removed) == 1

    async def allow(self, rule: Rule) -> None:
        await self._unbound.rules.add(ANYONE, [rule])

    async def publish(self, topic: str) -> None:
        await publish(self.node, topic, [NewRecord(value=b"canary")])

    def is_waited_for(self, topic: str) -> bool:
        return bool(self.node.led.find(topic, 0).waiters)

    @property
    def has_waits(self) -> bool:
        return bool(self.service.queues._access.waits._waiting)


@pytest.fixture
async def place(open_broker: OpenBroker) -> AsyncIterator[Place]:
    async with open_broker() as node:
        made = Place(node)
        await made.fill()
        yield made


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.002)


def part(topic: str) -> FetchPart:
    return FetchPart(topic, 0, 0, 1_000_000)


async def test_a_fetch_that_waits(place: Place) -> None:
    parts = [part("orders"), part("other")]
    waiting = asyncio.create_task(_fetch(place, parts))
    await until(lambda: place.is_waited_for("orders"))
    await place.revoke("orders")
    await place.publish("orders")
    orders, other = await asyncio.wait_for(waiting, SOON_S)
    assert isinstance(orders.error, TopicAccessDenied)
    assert not orders.data
    assert other.error is None


async def test_a_fetch_that_waits_is_told_though_nothing_comes(place: Place) -> None:
    # As Kafka's door begins a request.
    waiting = begin(_fetch(place, [part("orders"), part("other")]))
    assert isinstance(waiting, asyncio.Task)
    await until(lambda: place.is_waited_for("orders"))
    await place.revoke("orders")
    orders, other = await asyncio.wait_for(waiting, SOON_S)
    assert isinstance(orders.error, TopicAccessDenied)
    assert other.error is None


async def test_a_fetch_goes_on_waiting_when_others_lose_their_rights(place: Place) -> None:
    waiting = asyncio.create_task(_fetch(place, [part("orders")]))
    await until(lambda: place.is_waited_for("orders"))
    await place.revoke("other")
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await place.publish("orders")
    (orders,) = await asyncio.wait_for(waiting, SOON_S)
    assert orders.data


async def test_many_fetches_that_wait_are_asked_in_slices(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.pace.SLICE_SECONDS", 0.0)
    waiting = [asyncio.create_task(_fetch(place, [part("orders")])) for _ in range(20)]
    await until(lambda: len(place.node.led.find("orders", 0).waiters) == len(waiting))
    await place.revoke("other")
    await place.revoke("orders")
    for (orders,) in await asyncio.wait_for(asyncio.gather(*waiting), SOON_S):
        assert isinstance(orders.error, TopicAccessDenied)


async def _fetch(place: Place, parts: list[FetchPart]) -> list[Any]:
    return await place.service.log.fetch(ALICE, parts, **LIMITS)


async def test_a_session_that_waits_and_goes_on(place: Place) -> None:
    parts: dict[Hashable, FetchPart] = {name: part(name) for name in ("orders", "other")}
    ready = ReadyList()
    for name in parts:
        ready.add(name)

    async def fetch(max_wait_ms: int) -> dict[Any, Any]:
        limits = {**LIMITS, "max_wait_ms": max_wait_ms}
        return await place.service.log.fetch_ready(
            ALICE, ready, parts, looks_at_all=False, **limits
        )

    waiting = asyncio.create_task(fetch(WAIT_MS))
    await until(lambda: place.is_waited_for("orders") and place.is_waited_for("other"))
    await place.revoke("orders")
    await place.publish("orders")
    found = await asyncio.wait_for(waiting, SOON_S)
    assert isinstance(found["orders"].error, TopicAccessDenied)
    assert not found["orders"].data
    # Nothing happens in the other one; the wait for it ends all the same.
    del parts["orders"]
    ready.forget("orders")
    waiting = asyncio.create_task(fetch(WAIT_MS))
    await until(lambda: place.is_waited_for("other"))
    await place.revoke("other")
    found = await asyncio.wait_for(waiting, SOON_S)
    assert not found["other"].data
    # Why, it hears when it asks again.
    found = await asyncio.wait_for(fetch(WAIT_MS), SOON_S)
    assert isinstance(found["other"].error, TopicAccessDenied)


async def test_messages_that_are_waited_for(place: Place) -> None:
    request = Receive(max_messages=10, wait_ms=WAIT_MS, start="earliest")
    for revoked, error in (("orders", TopicAccessDenied), ("g", GroupAccessDenied)):
        topic = "orders" if revoked == "orders" else "other"
        waiting = asyncio.create_task(place.service.queues.receive(ALICE, "g", topic, request))
        await until(lambda: place.has_waits)
        await place.revoke(revoked)
        with pytest.raises(error):
            await asyncio.wait_for(waiting, SOON_S)
        assert not place.has_waits
        await place.publish(topic)
    # They are there for others, as if nobody had waited.
    everybody = BrokerService(place.node).queues
    for topic in ("orders", "other"):
        (left,) = await everybody.receive(ANYONE, "g", topic, replace(request, wait_ms=0))
        assert left.delivery_count == 1


async def test_other_changes_leave_a_wait_alone(place: Place) -> None:
    request = Receive(max_messages=10, wait_ms=WAIT_MS, start="earliest")
    waiting = asyncio.create_task(place.service.queues.receive(ALICE, "g", "orders", request))
    await until(lambda: place.has_waits)
    await place.revoke("other")
    await place.publish("orders")
    assert len(await asyncio.wait_for(waiting, SOON_S)) == 1


async def test_a_share_fetch_that_waits(place: Place) -> None:
    orders, other = (SharePart(place.node.topic(name).id, 0) for name in ("orders", "other"))
    for name in ("orders", "other"):
        await open_queues(place.node, "g", name)
    request = share_fetch(orders, other, max_wait_ms=WAIT_MS)
    member = ShareMember("g", "m")
    shares = place.service.share_groups
    # As Kafka's door begins a request.
    waiting = begin(shares.fetch(ALICE, member, request))
    assert isinstance(waiting, asyncio.Task)
    await until(lambda: place.has_waits)
    await place.revoke("orders")
    found = {each.part: each for each in await asyncio.wait_for(waiting, SOON_S)}
    assert isinstance(found[orders].error, TopicAccessDenied)
    waiting = asyncio.create_task(shares.fetch(ALICE, member, replace(request, wanted=(other,))))
    await until(lambda: place.has_waits)
    await place.revoke("g")
    with pytest.raises(GroupAccessDenied):
        await asyncio.wait_for(waiting, SOON_S)


async def test_a_message_that_is_taken_just_when_the_right_ends_is_given_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiving = place.node.queues.receiving
    taken, go_on = asyncio.Event(), asyncio.Event()
    read = receiving.reader.read

    async def slowly(*args: Any, **options: Any) -> Any:
        found = await read(*args, **options)
        if not options:
            # It is leased, and comes from the disk.
            taken.set()
            await go_on.wait()
        return found

    monkeypatch.setattr(receiving.reader, "read", slowly)
    request = Receive(max_messages=10, wait_ms=WAIT_MS, start="earliest", lease_ms=60 * WAIT_MS)
    waiting = asyncio.create_task(place.service.queues.receive(ALICE, "g", "orders", request))
    await until(lambda: place.has_waits)
    await place.publish("orders")
    await taken.wait()
    await place.revoke("orders")
    with pytest.raises(TopicAccessDenied):
        await asyncio.wait_for(waiting, LOCK_S)
    go_on.set()
    everybody = BrokerService(place.node).queues
    (left,) = await asyncio.wait_for(everybody.receive(ANYONE, "g", "orders", request), 30)
    assert left.record.value == b"canary"


async def test_records_that_are_acquired_just_when_the_right_ends_are_given_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, go_on = asyncio.Event(), asyncio.Event()
    acquire = fetching._acquire

    async def slowly(*args: Any) -> Any:
        found = await acquire(*args)
        taken.set()
        await go_on.wait()
        return found

    monkeypatch.setattr(fetching, "_acquire", slowly)
    orders = SharePart(place.node.topic("orders").id, 0)
    await open_queues(place.node, "g", "orders")
    request = share_fetch(orders, max_wait_ms=WAIT_MS)
    fetch = place.service.share_groups.fetch(ALICE, ShareMember("g", "m"), request)
    waiting = asyncio.create_task(fetch)
    await until(lambda: place.has_waits)
    await place.publish("orders")
    await taken.wait()
    await place.revoke("g")
    with pytest.raises(GroupAccessDenied):
        await asyncio.wait_for(waiting, LOCK_S)
    go_on.set()
    everybody = BrokerService(place.node).queues
    wanted = Receive(max_messages=10, wait_ms=WAIT_MS, start="earliest")
    (left,) = await asyncio.wait_for(everybody.receive(ANYONE, "g", "orders", wanted), LOCK_S)
    assert left.record.value == b"canary"


async def test_a_member_that_polls(place: Place) -> None:
    members = place.service.members
    client = Client(client_id="c", host="/127.0.0.1")
    await place.allow(
        Rule(
            resource=Resource.TOPIC,
            name="o",
            pattern=Pattern.PREFIXED,
            principal="User:alice",
            verb=Verb.DESCRIBE,
        )
    )
    joined = await members.join_cooperative(
        ALICE,
        CooperativeJoin(
            group_id="g",
            topics=("orders", "other"),
            offset_reset=OffsetReset.EARLIEST,
            client=client,
        ),
    )

    async def poll(timeout_ms: int) -> MemberPoll:
        return await members.poll(
            ALICE, "g", joined.member_id, max_records=10, timeout_ms=timeout_ms
        )

    waiting = asyncio.create_task(poll(WAIT_MS))
    await until(lambda: place.has_waits)
    await place.revoke("orders")
    await place.publish("orders")
    await place.publish("other")
    found = await asyncio.wait_for(waiting, SOON_S)
    assert {each.partition.topic for each in found.records} == {"other"}
    waiting = asyncio.create_task(poll(WAIT_MS))
    await until(lambda: place.has_waits)
    await place.revoke("g")
    with pytest.raises(GroupAccessDenied):
        await asyncio.wait_for(waiting, SOON_S)


async def test_a_member_is_told_of_topics_that_the_caller_may_see(place: Place) -> None:
    """Who may read the group may ask for anybody's member."""
    wanted = CooperativeJoin(
        group_id="g",
        topics=("orders", "other"),
        offset_reset=OffsetReset.EARLIEST,
        client=Client(client_id="c", host="/127.0.0.1"),
    )
    members = place.service.members
    joined = await members.join_cooperative(ALICE, wanted)
    assert {each.topic for each in joined.assigned} == {"orders", "other"}
    await place.allow(Rule(resource=Resource.GROUP, name="g", principal="User:bob", verb=Verb.READ))
    bob = replace(ALICE, principal=Principal("User", "bob"))
    beat = await members.heartbeat_cooperative(bob, "g", joined.member_id, None)
    assert beat.assigned | beat.to_revoke == frozenset()
    polled = await members.poll(bob, "g", joined.member_id, max_records=1, timeout_ms=0)
    assert polled.member.assigned | polled.member.to_revoke == frozenset()
    beat = await members.heartbeat_cooperative(ALICE, "g", joined.member_id, None)
    assert {each.topic for each in beat.assigned} == {"orders", "other"}
