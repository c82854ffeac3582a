"""Queues read at brokers that lead none or only some of a topic's partitions."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from goqueue.broker.own_grants import OwnWork, own_group, own_read
from goqueue.broker.queues.receiving_anywhere import OTHERS_FIRST_EVERY, ReceivingAnywhere
from goqueue.model.companions import QUEUE_STATE, companion_of
from goqueue.model.configs import ConfigChange
from goqueue.model.errors import (
    BrokerUnreachable,
    NotLeader,
    StateLoading,
    TooManyInFlight,
    UnknownQueue,
)
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import Settled, Settlement, settle_all
from goqueue.model.queues.sqs_queue import SQS_GROUP
from goqueue.model.records import NewRecord
from goqueue.model.rights import DeletableGroup
from tests.callers import ANYONE, SQS_READER
from tests.publishing import publish as store
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes
from tests.unit.broker.test_uncommitted import commits_held


async def three(nodes: Nodes, partitions: int = 3, **settings: str) -> list[RunningNode]:
    """Each of the brokers leads every third partition."""
    brokers = await nodes.start(1, 2, 3)
    texts = {name.replace("_", "."): text for name, text in settings.items()}
    await nodes.make_topic(partitions, config=texts)
    return brokers


async def publish(broker: RunningNode, *values: bytes, index: int = 0, key: bytes = b"") -> None:
    records = [NewRecord(key=key or None, value=value) for value in values]
    await store(broker.node, TOPIC, records, partition=index)


async def receive(broker: RunningNode, limit: int = 10, **options: Any) -> list[Delivery]:
    request = Receive(max_messages=limit, **{"start": "earliest", **options})
    return await broker.service.queues.receive(ANYONE, "g", TOPIC, request)


async def settle(
    broker: RunningNode,
    deliveries: Sequence[Delivery],
    action: AckAction = AckAction.ACCEPT,
    delay_ms: int | None = None,
) -> list[Settled]:
    wanted = settle_all([each.receipt for each in deliveries], action, delay_ms)
    return await broker.service.queues.settle(ANYONE, "g", wanted)


def values(deliveries: Sequence[Delivery]) -> list[bytes]:
    return [delivery.record.value or b"" for delivery in deliveries]


async def receive_all(broker: RunningNode, count: int) -> list[Delivery]:
    found: list[Delivery] = []
    while len(found) < count:
        some = await receive(broker)
        assert some, f"{len(found)} of {count}"
        found += some
    return found


def waiting(broker: RunningNode) -> int:
    """Readers and brokers that wait for messages of what this one leads."""
    lines = broker.node.queues.lines._lines.values()
    return sum(len(line.aside) for line in lines if line.partition is not None)


@with_nodes
async def test_messages_of_all_leaders_are_received_and_settled_at_any_broker(
    nodes: Nodes,
) -> None:
    brokers = await three(nodes, partitions=6)
    for index in range(6):
        await publish(brokers[index % 3], b"%d" % index, index=index)
    found = await receive_all(brokers[0], 6)
    assert sorted(values(found)) == [b"%d" % index for index in range(6)]
    assert await settle(brokers[1], found) == [QueueError.NONE] * 6
    assert await settle(brokers[2], found) == [QueueError.RECEIPT_SETTLED] * 6
    for broker in brokers:
        assert await receive(broker) == []


@with_nodes
async def test_a_broker_that_leads_nothing_serves_a_queue(nodes: Nodes) -> None:
    await nodes.start(1, 2, 3)
    await nodes.make_topic(2, replicas=[1, 2])
    outsider = nodes.running[3]
    assert outsider.node.hosted.get(TOPIC, 0) is None
    await publish(outsider, b"a", b"b", index=0)
    await publish(outsider, b"c", index=1)
    found = await receive_all(outsider, 3)
    assert sorted(values(found)) == [b"a", b"b", b"c"]
    [first] = [each for each in found if each.record.value == b"a"]
    [last] = [each for each in found if each.record.value == b"c"]
    assert await settle(outsider, [first], AckAction.RELEASE) == [QueueError.NONE]
    [again] = await receive(outsider)
    assert (again.record.value, again.delivery_count) == (b"a", 2)
    assert await settle(outsider, [last], AckAction.RENEW, 60_000) == [QueueError.NONE]


@with_nodes
async def test_answers_keep_the_order_of_the_receipts(nodes: Nodes) -> None:
    brokers = await three(nodes)
    for index in range(3):
        await publish(brokers[0], b"a%d" % index, b"b%d" % index, index=index)
    found = await receive_all(brokers[0], 6)
    found.sort(key=values_of)
    await settle(brokers[0], found[1:5:3])
    assert await settle(brokers[1], found) == [
        QueueError.RECEIPT_SETTLED if each in found[1:5:3] else QueueError.NONE for each in found
    ]


def values_of(delivery: Delivery) -> bytes:
    return delivery.record.value or b""


@with_nodes
async def test_receipts_of_a_leader_that_is_away_do_not_hold_up_the_others(nodes: Nodes) -> None:
    brokers = await three(nodes)
    for index in range(3):
        await publish(brokers[0], b"%d" % index, index=index)
    found = sorted(await receive_all(brokers[0], 3), key=values_of)
    other = Settlement(found[0].receipt._replace(partition=9), AckAction.ACCEPT)
    wanted = settle_all([each.receipt for each in found], AckAction.ACCEPT)
    settled = await brokers[1].service.queues.settle(ANYONE, "g", [other, *wanted])
    assert settled[1:] == [QueueError.NONE] * 3
    with pytest.raises(Exception, match="no partition 9"):
        raise settled[0]  # type: ignore[misc]


@with_nodes
async def test_a_receipt_is_called_unknown_only_by_who_is_known_to_lead(nodes: Nodes) -> None:
    """A leader that has not heard of the next one would not know what that one gave out."""
    brokers = await three(nodes, partitions=1)
    await publish(brokers[0], b"a")
    [found] = await receive(brokers[0])
    receipt = found.receipt._replace(delivery_count=2)
    wanted = settle_all([receipt], AckAction.ACCEPT)
    said = await brokers[1].service.queues.settle(ANYONE, "g", wanted)
    assert said == [QueueError.RECEIPT_UNKNOWN]
    name = companion_of(QUEUE_STATE, brokers[0].node.topic(TOPIC).id)
    state = brokers[0].node.partition(name, 0)
    with commits_held(state):
        settling = asyncio.create_task(brokers[0].service.queues.settle(ANYONE, "g", wanted))
        await asyncio.sleep(0.1)
        assert not settling.done()
        state.stand_down(NotLeader("another broker leads it"))
        [told] = await settling
    assert isinstance(told, NotLeader)


@with_nodes
async def test_what_others_lead_does_not_wait_until_nothing_is_left_here(nodes: Nodes) -> None:
    brokers = await three(nodes)
    mine = next(index for index in range(3) if brokers[0].leads(index))
    other = (mine + 1) % 3
    await publish(brokers[0], *(b"here" for _ in range(50)), index=mine)
    await publish(brokers[0], b"there", index=other)
    found = [await receive(brokers[0], 1) for _ in range(3 * OTHERS_FIRST_EVERY)]
    assert b"there" in values([each for some in found for each in some])


@with_nodes
async def test_a_reader_waits_at_all_leaders(nodes: Nodes) -> None:
    brokers = await three(nodes)
    loop = asyncio.get_running_loop()
    for index in (0, 1, 2, 0, 1, 2):
        reading = asyncio.create_task(receive(brokers[0], wait_ms=30_000))
        await nodes.until(lambda: waiting(brokers[1]) and waiting(brokers[2]))
        await publish(brokers[index], b"%d" % index, index=index)
        published_at = loop.time()
        assert values(await reading) == [b"%d" % index]
        assert loop.time() - published_at < 1
    # Nobody stands in line any more.
    await nodes.until(lambda: not any(waiting(broker) for broker in brokers))
    for broker in brokers:
        assert not broker.node.queues.lines._lines


@with_nodes
async def test_a_reader_that_goes_away_takes_nothing(nodes: Nodes) -> None:
    brokers = await three(nodes)
    reading = asyncio.create_task(receive(brokers[0], wait_ms=30_000))
    await nodes.until(lambda: waiting(brokers[1]) and waiting(brokers[2]))
    reading.cancel()
    await nodes.until(lambda: not any(waiting(broker) for broker in brokers))
    for index in range(3):
        await publish(brokers[index], b"%d" % index, index=index)
    described = await brokers[1].service.queues.describe(ANYONE, "g", TOPIC)
    assert [part.in_flight for part in described] == [0, 0, 0]
    assert sorted(values(await receive_all(brokers[2], 3))) == [b"0", b"1", b"2"]


@with_nodes
async def test_what_was_leased_for_a_reader_that_has_gone_comes_back_at_once(
    nodes: Nodes,
) -> None:
    brokers = await three(nodes)
    await receive(brokers[0])
    mine = next(index for index in range(3) if brokers[0].leads(index))
    other = (mine + 1) % 3
    await publish(brokers[0], b"x", index=other)
    leader = nodes.leader(other)
    assert leader is not None
    asked = asyncio.Event()
    go_on = asyncio.Event()
    served = leader.node.calls._served["queues.receive"]

    async def slow(request: Any) -> Any:
        answer = await served.run(request)
        asked.set()
        await go_on.wait()
        return answer

    leader.node.calls._served["queues.receive"] = served._replace(run=slow)
    reading = asyncio.create_task(receive(brokers[0]))
    await asked.wait()
    leader.node.calls._served["queues.receive"] = served
    reading.cancel()
    go_on.set()
    found = await receive(brokers[0], wait_ms=20_000)
    assert [(each.record.value, each.delivery_count) for each in found] == [(b"x", 2)]


@with_nodes
async def test_what_is_leased_here_for_a_reader_that_has_gone_comes_back_at_once(
    nodes: Nodes,
) -> None:
    brokers = await three(nodes)
    await receive(brokers[0])
    mine = next(index for index in range(3) if brokers[0].leads(index))
    await publish(brokers[0], b"x", index=mine)
    leased, go_on = asyncio.Event(), asyncio.Event()
    receiving = brokers[0].node.queues.receiving
    sweep = receiving.sweep

    async def slow(*given: Any) -> Any:
        found = await sweep(*given)
        if found.found:
            leased.set()
            await go_on.wait()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receiving, "sweep", slow)
        reading = asyncio.create_task(receive(brokers[0], wait_ms=30_000))
        await leased.wait()
    reading.cancel()
    go_on.set()
    found = await receive(brokers[1], wait_ms=20_000)
    assert values(found) == [b"x"]
    # The look that went on without its reader waits for nothing.
    await nodes.until(lambda: not any(waiting(broker) for broker in brokers))


@with_nodes
async def test_every_message_finds_a_reader_wherever_they_wait(nodes: Nodes) -> None:
    brokers = await three(nodes)
    readers = [
        asyncio.create_task(receive(brokers[number % 3], 1, wait_ms=50_000)) for number in range(30)
    ]
    await nodes.until(lambda: all(waiting(broker) >= 2 for broker in brokers))
    # Some of those that are woken go away before they have looked.
    await publish(brokers[0], *(b"%d" % n for n in range(8)), index=0)
    for reader in readers[:3]:
        reader.cancel()
    await publish(brokers[1], *(b"%d" % n for n in range(8, 16)), index=1)
    await publish(brokers[2], *(b"%d" % n for n in range(16, 24)), index=2)
    gone = [reader for reader in readers[:3] if reader.cancelled() or not reader.done()]
    wanted = 24
    while sum(reader.done() for reader in readers if reader not in gone) < wanted:
        await asyncio.sleep(0.01)
    found = [
        value
        for reader in readers
        if reader.done() and not reader.cancelled()
        for value in values(reader.result())
    ]
    assert sorted(found, key=int) == [b"%d" % n for n in range(24)]
    for reader in readers:
        reader.cancel()


@with_nodes
async def test_a_group_begins_at_the_end_everywhere_at_its_first_read(nodes: Nodes) -> None:
    brokers = await three(nodes)
    for index in range(3):
        await publish(brokers[0], b"before", index=index)
    assert await receive(brokers[0], start="latest") == []
    for index in range(3):
        await publish(brokers[0], b"after", index=index)
    assert values(await receive_all(brokers[1], 3)) == [b"after"] * 3
    assert await receive(brokers[2]) == []


@with_nodes
async def test_settings_of_the_topic_reach_every_leader(nodes: Nodes) -> None:
    brokers = await three(nodes, queue_visibility_timeout_ms="60000")
    assert await receive(brokers[0]) == []
    for index in range(3):
        await publish(brokers[0], b"%d" % index, index=index)
    change = ConfigChange(name="queue.visibility.timeout.ms", value="1000")
    await brokers[1].service.topics.alter(ANYONE, TOPIC, changes=[change])
    await nodes.until(
        lambda: all(
            broker.node.image.topics[TOPIC].config.get("queue.visibility.timeout.ms") == "1000"
            for broker in brokers
        )
    )
    await receive_all(brokers[0], 3)
    again: list[Delivery] = []
    while len(again) < 3:
        again += await receive(brokers[2], wait_ms=10_000)
    assert [each.delivery_count for each in again] == [2, 2, 2]


@with_nodes
async def test_a_consumer_that_has_all_it_may_have_leaves_the_rest_to_others(nodes: Nodes) -> None:
    brokers = await three(nodes, queue_max_in_flight_per_consumer="1")
    await publish(brokers[0], b"a", b"b", index=1)
    [first] = await receive(brokers[0], member="one")
    full = asyncio.create_task(receive(brokers[0], member="one", wait_ms=30_000))
    await nodes.until(lambda: waiting(brokers[1]))
    [second] = await receive(brokers[0], member="two", wait_ms=10_000)
    assert {first.record.value, second.record.value} == {b"a", b"b"}
    assert not full.done()
    await publish(brokers[0], b"c", index=1)
    await settle(brokers[2], [first])
    assert values(await full) == [b"c"]


@with_nodes
async def test_consumers_that_have_all_they_may_have_wait_quietly(nodes: Nodes) -> None:
    brokers = await three(nodes, 2, queue_max_in_flight_per_consumer="1")
    at = {"a": brokers[0], "b": brokers[0], "c": brokers[1], "d": brokers[1]}
    for index in range(2):
        await publish(brokers[0], *(b"%d" % count for count in range(20)), index=index)
    for member, broker in at.items():
        for _ in range(2):
            assert len(await receive(broker, 1, member=member)) == 1
    looks = 0
    look = ReceivingAnywhere._look

    async def counted(self: ReceivingAnywhere, *args: Any) -> Any:
        nonlocal looks
        looks += 1
        return await look(self, *args)

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(ReceivingAnywhere, "_look", counted)
        readers = [
            asyncio.create_task(receive(broker, member=member, wait_ms=60_000))
            for member, broker in at.items()
        ]
        await nodes.until(lambda: looks >= len(readers))
        # What asks other brokers as often as they could.
        for _ in range(50):
            assert len(await receive(brokers[2], 1, member="e")) <= 1
        assert looks - 50 <= 3 * len(readers)
        for reader in readers:
            reader.cancel()


@with_nodes
async def test_too_many_in_flight_is_said_when_all_leaders_are_full(nodes: Nodes) -> None:
    brokers = await three(nodes, queue_max_in_flight="1")
    for index in range(3):
        await publish(brokers[0], b"a", b"b", index=index)
    taken = await receive_all(brokers[0], 2)
    assert len(taken) == 2
    taken += await receive(brokers[0], refuses_when_full=True)
    assert len(taken) == 3
    for broker in brokers:
        with pytest.raises(TooManyInFlight, match="reached: 3"):
            await receive(broker, refuses_when_full=True)
    await settle(brokers[1], taken[:1])
    assert len(await receive(brokers[2], refuses_when_full=True)) == 1


@with_nodes
async def test_groups_of_messages_keep_their_order_at_any_broker(nodes: Nodes) -> None:
    brokers = await three(nodes)
    await publish(brokers[0], b"1", b"2", b"3", index=1, key=b"k")
    taken = []
    for number in range(3):
        [one] = await receive(brokers[number % 3], 1, in_order=True)
        assert await receive(brokers[(number + 1) % 3], 1, in_order=True) == []
        waiter = asyncio.create_task(receive(brokers[0], 1, in_order=True, wait_ms=30_000))
        await nodes.until(lambda: waiting(brokers[1]))
        waiter.cancel()
        taken.append(one)
        await settle(brokers[(number + 2) % 3], [one])
    assert values(taken) == [b"1", b"2", b"3"]


@with_nodes
async def test_the_queues_of_sqs_have_their_settings_at_every_leader(nodes: Nodes) -> None:
    brokers = await three(nodes)
    await brokers[0].service.sqs_queues.set_attributes(ANYONE, TOPIC, {"VisibilityTimeout": "1"})
    for index in range(3):
        await publish(brokers[0], b"%d" % index, index=index)
    request = Receive(max_messages=10, remembers=True)
    taken: list[Delivery] = []
    while len(taken) < 3:
        taken += await brokers[1].service.queues.receive(SQS_READER, SQS_GROUP, TOPIC, request)
    again: list[Delivery] = []
    longer = Receive(max_messages=10, wait_ms=10_000, remembers=True)
    while len(again) < 3:
        again += await brokers[2].service.queues.receive(SQS_READER, SQS_GROUP, TOPIC, longer)
    assert [each.delivery_count for each in again] == [2, 2, 2]
    assert {each.first_received_ms for each in again} == {each.first_received_ms for each in taken}
    # The last receipt settles a message also after its time.
    await asyncio.sleep(1.1)
    wanted = settle_all([each.receipt for each in again], AckAction.ACCEPT)
    settled = await brokers[0].service.queues.settle(
        SQS_READER, SQS_GROUP, wanted, outlives_lease=True
    )
    assert settled == [QueueError.NONE] * 3


@with_nodes
async def test_a_group_without_queues_is_told_so_from_any_broker(nodes: Nodes) -> None:
    brokers = await three(nodes)
    await publish(brokers[0], b"a", index=1)
    [found] = await receive(brokers[0])
    wanted = settle_all([found.receipt], AckAction.ACCEPT)
    [settled] = await brokers[0].service.queues.settle(ANYONE, "other", wanted)
    assert isinstance(settled, UnknownQueue)


@with_nodes
async def test_a_reader_goes_on_at_the_next_leader(nodes: Nodes) -> None:
    brokers = await three(nodes)
    for index in range(3):
        await nodes.until_in_sync(1, 2, 3, index=index)
    gone = nodes.leader(1)
    assert gone is not None
    reader = next(broker for broker in brokers if broker is not gone)
    await publish(reader, b"taken", index=1)
    [taken] = await receive(reader)
    waiting_reader = asyncio.create_task(receive(reader, wait_ms=50_000))
    await nodes.until(lambda: waiting(gone))
    await nodes.die(gone.id)
    # What was with a reader when its leader died is ready again.
    [again] = await waiting_reader
    assert again.record.value == b"taken"
    late = asyncio.create_task(receive(reader, wait_ms=50_000))
    await publish(reader, b"late", index=1)
    assert values(await late) == [b"late"]
    assert await settle(reader, [taken]) != [QueueError.NONE]
    assert await settle(reader, [again]) == [QueueError.NONE]


@with_nodes
async def test_a_topic_without_any_leader_is_refused_after_a_while(nodes: Nodes) -> None:
    brokers = await nodes.start(1, 2)
    await nodes.make_topic(1, replicas=[1])
    assert await receive(brokers[1]) == []
    await nodes.die(1)
    with pytest.raises(NotLeader):
        await receive(brokers[1])


# --- figures, beginning anew, deletion ----------------------------------------------------


async def ready(broker: RunningNode, group: str = "g") -> list[int]:
    described = await broker.service.queues.describe(ANYONE, group, TOPIC)
    return [part.ready for part in described]


@with_nodes
async def test_any_broker_describes_all_queues(nodes: Nodes) -> None:
    brokers = await three(nodes)
    for index in range(3):
        await publish(brokers[0], *(b"x" for _ in range(index + 1)), index=index)
    [first] = await receive(brokers[0], 1)
    expected = [1, 2, 3]
    expected[first.partition] -= 1
    for broker in brokers:
        assert await ready(broker) == expected
        found = await broker.service.queues.describe_all(ANYONE)
        assert found.unanswered == []
        assert [
            (each.topic, each.queue.queue.partition, each.queue.ready) for each in found.queues
        ] == [(TOPIC, index, count) for index, count in enumerate(expected)]
        assert sum(each.queue.in_flight for each in found.queues) == 1


@with_nodes
async def test_figures_name_brokers_that_do_not_answer(nodes: Nodes) -> None:
    brokers = await three(nodes)
    await receive(brokers[0])
    silent = brokers[1]

    async def refuse(_: object) -> None:
        raise NotLeader("not now")

    served = silent.node.calls._served["queues.describe_led"]
    silent.node.calls._served["queues.describe_led"] = served._replace(run=refuse)
    found = await brokers[0].service.queues.describe_all(ANYONE)
    assert [each.queue.queue.partition for each in found.queues] == [
        index for index in range(3) if not silent.leads(index)
    ]
    assert [(each.broker, each.reason) for each in found.unanswered] == [(silent.id, "not now")]


@with_nodes
async def test_descriptions_are_in_pages(nodes: Nodes) -> None:
    brokers = await three(nodes, partitions=9)
    await receive(brokers[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("goqueue.broker.queues.describing.PAGE_QUEUES", 2)
        found = await brokers[0].service.queues.describe_all(ANYONE)
    assert [each.queue.queue.partition for each in found.queues] == list(range(9))


@with_nodes
async def test_sqs_counts_what_all_leaders_have(nodes: Nodes) -> None:
    brokers = await three(nodes)
    for index in range(3):
        await publish(brokers[0], b"x", index=index)
    # Nobody has received anything yet, so that no leader has been asked for its queue.
    for broker in brokers:
        assert (await broker.service.sqs_queues.counts(ANYONE, TOPIC)).visible == 3


@with_nodes
async def test_a_queue_is_purged_at_all_leaders(nodes: Nodes) -> None:
    brokers = await three(nodes)
    for index in range(3):
        await publish(brokers[0], b"old", index=index)
    await brokers[0].service.sqs_queues.purge(ANYONE, TOPIC)
    for index in range(3):
        await publish(brokers[0], b"new", index=index)
    assert (await brokers[1].service.sqs_queues.counts(ANYONE, TOPIC)).visible == 3
    request = Receive(max_messages=10, until_empty=True)
    found: list[Delivery] = []
    while some := await brokers[2].service.queues.receive(SQS_READER, SQS_GROUP, TOPIC, request):
        found += some
    assert values(found) == [b"new"] * 3
    starts = await brokers[0].node.queues.starts(
        own_group(SQS_GROUP, OwnWork.SQS_QUEUE), own_read(TOPIC, OwnWork.SQS_QUEUE)
    )
    assert starts == {0: 1, 1: 1, 2: 1}


@with_nodes
async def test_a_group_is_deleted_at_all_leaders_and_begins_anew(nodes: Nodes) -> None:
    brokers = await three(nodes)
    for index in range(3):
        await publish(brokers[0], b"x", index=index)
    await settle(brokers[1], await receive_all(brokers[0], 3))
    assert await receive(brokers[0]) == []
    # It has no members or offsets, and nobody has made the topic of the coordinators.
    await brokers[2].service.groups.find_and_delete(ANYONE, "g")
    with pytest.raises(GroupRefused, match="no such group"):
        await brokers[2].service.groups.find_and_delete(ANYONE, "g")
    for broker in brokers:
        assert (await broker.service.queues.describe_all(ANYONE)).queues == []
    assert len(await receive_all(brokers[0], 3)) == 3


@with_nodes
async def test_what_has_no_leader_cannot_be_described_or_deleted(nodes: Nodes) -> None:
    brokers = await nodes.start(1, 2)
    await nodes.make_topic(2, replicas=[1])
    assert await receive(brokers[1]) == []
    await nodes.die(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("goqueue.broker.queues.leaders.LEADER_PATIENCE_S", 0.3)
        patch.setattr("goqueue.broker.queues.resetting.LEADER_PATIENCE_S", 0.3)
        with pytest.raises((NotLeader, BrokerUnreachable)):
            await brokers[1].service.queues.describe(ANYONE, "g", TOPIC)
        with pytest.raises((NotLeader, BrokerUnreachable)):
            await brokers[1].node.queues.delete(DeletableGroup("g"))


@with_nodes
async def test_what_is_led_here_is_not_held_up_by_a_partition_without_a_leader(
    nodes: Nodes,
) -> None:
    await nodes.start(1, 2)
    await nodes.make_topic(2, replicas=[1, 2])
    for index in range(2):
        await nodes.until_in_sync(1, 2, index=index)
    survivor, gone = nodes.running[2], nodes.running[1]
    assert await receive(survivor) == []
    served = gone.node.calls._served["queues.receive"]

    async def loading(_: object) -> None:
        raise StateLoading("not yet")

    gone.node.calls._served["queues.receive"] = served._replace(run=loading)
    # An empty answer at once, and one that waits.
    assert await receive(survivor) == []
    reading = asyncio.create_task(receive(survivor, wait_ms=50_000))
    mine, other = (index for index in sorted(range(2), key=lambda at: not survivor.leads(at)))
    await publish(survivor, b"here", index=mine)
    assert values(await reading) == [b"here"]
    with pytest.raises(StateLoading):
        await receive(survivor, until_empty=True)
    await publish(survivor, b"there", index=other)
    late = asyncio.create_task(receive(survivor, wait_ms=50_000))
    await asyncio.sleep(0.5)
    gone.node.calls._served["queues.receive"] = served
    assert values(await late) == [b"there"]
