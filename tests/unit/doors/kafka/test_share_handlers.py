"""Share groups over the wire, in every version."""

import asyncio
import contextlib
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.broker.queues.share.fetching import ShareFetching
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.configs import ConfigChange, ConfigResource, ConfigResourceKind
from goqueue.model.errors import GoQueueError, NotEnoughReplicas
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.hostile_batches import batch, one_huge_record
from tests.publishing import publish as store
from tests.stored_records import read_records
from tests.unit.doors.kafka.group_member import until
from tests.unit.doors.kafka.share_member import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    ShareMember,
    parts,
    ranges,
    values,
)
from tests.unit.doors.kafka.test_transaction_handlers import TransactionalProducer
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

VERSIONS = (1, 2)
GROUP = 32


@pytest.fixture
async def topic(broker: Node) -> str:
    await BrokerService(broker).topics.create(ANYONE, NewTopic(name="a", partitions=2))
    await BrokerService(broker).administration.alter_config(
        ANYONE,
        ConfigResource(ConfigResourceKind.GROUP, "g"),
        [ConfigChange(name="share.auto.offset.reset", value="earliest")],
    )
    return "a"


async def publish(broker: Node, count: int, partition: int = 0, topic: str = "a") -> None:
    """Every message is a batch of its own."""
    for number in range(count):
        await store(broker, topic, [NewRecord(value=b"%d" % number)], partition=partition)


async def publish_batch(broker: Node, count: int, partition: int = 0) -> None:
    records = [NewRecord(value=b"%d" % number) for number in range(count)]
    await store(broker, "a", records, partition=partition)


def acks_errors(answer: Any) -> dict[int, ErrorCode]:
    return {index: ErrorCode(part.acknowledge_error_code) for index, part in parts(answer).items()}


@pytest.mark.parametrize("version", VERSIONS)
async def test_records_are_acquired_once_and_acknowledged(
    door: KafkaDoor, broker: Node, topic: str, version: int
) -> None:
    await publish(broker, 3)
    await publish(broker, 2, partition=1)
    one = await ShareMember.join(door, broker, topic, name="one")
    two = await ShareMember.join(door, broker, topic, name="two")
    first = await one.fetch([0, 1], version=version)
    assert first.acquisition_lock_timeout.total_seconds() == 30
    assert ranges(first) == {0: [(0, 2, 1)], 1: [(0, 1, 1)]}
    assert values(first, 0) == [b"0", b"1", b"2"]
    assert values(first, 1) == [b"0", b"1"]
    # Nobody else gets them, and the second fetch has nothing new to say.
    assert await two.get([0, 1], version=version) == {}
    again = await one.fetch(version=version)
    assert again.responses == ()
    done = await one.fetch(
        acks={0: [(0, 2, [ACCEPT])], 1: [(0, 1, [ACCEPT, RELEASE])]}, version=version
    )
    assert acks_errors(done) == {0: ErrorCode.none, 1: ErrorCode.none}
    # The released one comes again at once, with its count.
    assert ranges(done) == {1: [(1, 1, 2)]}
    answer = await one.acknowledge({1: [(1, 1, [ACCEPT])]}, version=version)
    assert [p.error_code for p in parts(answer).values()] == [ErrorCode.none]
    assert parts(answer)[1].current_leader.leader_id == broker.node_id
    assert await two.get(version=version) == {}


async def test_sessions(door: KafkaDoor, broker: Node, topic: str) -> None:
    member = await ShareMember.join(door, broker, topic)

    async def code(epoch: int, **fields: Any) -> ErrorCode:
        answer = await member.fetch([0], share_session_epoch=epoch, **fields)
        found: ErrorCode = answer.error_code
        return found

    async def ack_code(epoch: int) -> ErrorCode:
        answer = await member.acknowledge({}, share_session_epoch=epoch)
        found: ErrorCode = answer.error_code
        return found

    assert await code(1) is ErrorCode.share_session_not_found
    assert await code(-1) is ErrorCode.share_session_not_found
    assert await ack_code(1) is ErrorCode.share_session_not_found
    assert await ack_code(-1) is ErrorCode.share_session_not_found
    assert await code(0, acks={0: [(0, 0, [ACCEPT])]}) is ErrorCode.invalid_request
    member.group_id = "other"
    assert await code(0) is ErrorCode.group_id_not_found
    member.group_id, member.member_id = "g", "m" * 37
    assert await code(0) is ErrorCode.invalid_request
    member.member_id = "m"
    assert await code(0) is ErrorCode.none
    assert await ack_code(0) is ErrorCode.invalid_share_session_epoch
    assert await code(2) is ErrorCode.invalid_share_session_epoch
    assert await code(1) is ErrorCode.none
    assert await ack_code(2) is ErrorCode.none
    assert await code(2) is ErrorCode.invalid_share_session_epoch
    # Opened anew.
    assert await code(0) is ErrorCode.none
    assert await code(1) is ErrorCode.none
    assert await code(-1) is ErrorCode.none
    assert await code(2) is ErrorCode.share_session_not_found


class TestManySessions:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"group.share.max.share.sessions": "2"}

    async def test_more_than_the_limit_are_refused(
        self, door: KafkaDoor, broker: Node, topic: str
    ) -> None:
        members = [await ShareMember.join(door, broker, topic, name=f"m{n}") for n in range(3)]
        assert await members[0].get([0]) == {}
        assert await members[1].get([0]) == {}
        refused = await members[2].fetch([0])
        assert refused.error_code is ErrorCode.share_session_limit_reached
        members[0].client.close()

        async def fetched() -> Any:
            answer = await members[2].fetch([0])
            return answer.error_code is ErrorCode.none

        await until(fetched)


async def test_partitions_come_and_go(door: KafkaDoor, broker: Node, topic: str) -> None:
    member = await ShareMember.join(door, broker, topic)
    assert await member.get([0]) == {}
    await publish(broker, 1, partition=0)
    await publish(broker, 1, partition=1)
    forget = [{"topic_id": member.topic_id, "partitions": [0]}]
    assert await member.get([1], forgotten_topics_data=forget) == {1: [(0, 0, 1)]}
    assert await member.get([0]) == {0: [(0, 0, 1)]}
    answer = await member.fetch([7])
    assert parts(answer)[7].error_code is ErrorCode.unknown_topic_or_partition


async def test_closing_releases(door: KafkaDoor, broker: Node, topic: str) -> None:
    await publish(broker, 4)
    one = await ShareMember.join(door, broker, topic, name="one")
    two = await ShareMember.join(door, broker, topic, name="two")
    assert await one.get([0]) == {0: [(0, 3, 1)]}
    # With the last acknowledgements: those count, the rest is released.
    closed = await one.fetch(acks={0: [(0, 1, [ACCEPT])]}, share_session_epoch=-1)
    assert acks_errors(closed) == {0: ErrorCode.none}
    assert await two.get([0]) == {0: [(2, 3, 2)]}
    closed = await two.acknowledge({0: [(2, 2, [ACCEPT])]}, share_session_epoch=-1)
    assert closed.error_code is ErrorCode.none
    one.session_epoch = 0
    assert await one.get([0]) == {0: [(3, 3, 3)]}
    # So does the end of the connection,
    one.client.close()
    two.session_epoch = 0
    await two.fetch([0])

    async def got() -> Any:
        return await two.get()

    async def is_there() -> Any:
        return (await got()) or None

    assert await until(is_there) == {0: [(3, 3, 4)]}
    # and leaving the group.
    await two.heartbeat(member_epoch=-1)
    three = await ShareMember.join(door, broker, topic, name="three")
    await three.fetch([0], max_wait=5_000)
    described = await BrokerService(broker).queues.describe(ANYONE, "g", topic)
    assert described[0].in_flight == 1


async def test_too_few_replicas_for_a_lock_are_told_as_consumers_know_it(
    door: KafkaDoor, broker: Node, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await publish(broker, 1)
    member = await ShareMember.join(door, broker, topic)
    with monkeypatch.context() as patches:

        async def refuse(*_: object) -> None:
            raise NotEnoughReplicas("1 of 2 is in sync")

        patches.setattr(broker.queues.registry, "shard", refuse)
        refused = await member.fetch([0])
        assert parts(refused)[0].error_code is ErrorCode.not_leader_or_follower
    assert await member.get() == {0: [(0, 0, 1)]}


async def test_a_fetch_waits_for_records_and_for_released_ones(
    door: KafkaDoor, broker: Node, topic: str
) -> None:
    one = await ShareMember.join(door, broker, topic, name="one")
    two = await ShareMember.join(door, broker, topic, name="two")
    waiting = asyncio.create_task(one.get([0, 1], max_wait=10_000))
    other = asyncio.create_task(two.get([0, 1], max_wait=10_000))
    while not broker.partition(topic, 1).waiters:
        await asyncio.sleep(0)
    await publish(broker, 1, partition=1)
    done, _ = await asyncio.wait({waiting, other}, return_when=asyncio.FIRST_COMPLETED)
    assert [task.result() for task in done] == [{1: [(0, 0, 1)]}]
    holder = one if waiting in done else two
    await holder.acknowledge({1: [(0, 0, [RELEASE])]})
    rest = other if waiting in done else waiting
    assert await rest == {1: [(0, 0, 2)]}


async def test_a_record_wakes_one_member_and_many_records_wake_many(
    door: KafkaDoor, broker: Node, topic: str
) -> None:
    count = 20
    members = [await ShareMember.join(door, broker, topic, name=f"m{n}") for n in range(count)]
    fields: dict[str, Any] = {"max_wait": 60_000, "max_records": 1, "share_acquire_mode": 1}
    waiting = {asyncio.create_task(m.get([0], **fields)): m for m in members}

    async def all_wait() -> bool:
        lines = broker.queues.lines._lines.values()
        return sum(len(line.members) for line in lines) == count

    await until(all_wait)
    looks = 0
    look = ShareFetching._look

    async def counted(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        return await look(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShareFetching, "_look", counted)
        await publish(broker, 1)
        done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in done] == [{0: [(0, 0, 1)]}]
        assert looks <= 3
    # One that goes away hands on what it was woken for.
    gone = rest.pop()
    waiting[gone].client.close()
    gone.cancel()
    await publish_batch(broker, count - 2)
    found, _ = await asyncio.wait(rest, timeout=60)
    acquired = sorted(task.result()[0][0] for task in found)
    assert [(first, last) for first, last, _ in acquired] == [
        (offset, offset) for offset in range(1, count - 1)
    ]
    # Or what it had acquired, if it was first in line and quicker than the end of its connection.
    assert sum(deliveries for _, _, deliveries in acquired) in (count - 2, count - 1)


async def test_too_few_bytes_are_waited_for_but_not_locked(
    door: KafkaDoor, broker: Node, topic: str
) -> None:
    await publish(broker, 1)
    one = await ShareMember.join(door, broker, topic, name="one")
    two = await ShareMember.join(door, broker, topic, name="two")
    waiting = asyncio.create_task(one.get([0], min_bytes=100_000, max_wait=10_000))
    while not broker.partition(topic, 0).waiters:
        await asyncio.sleep(0)
    assert await two.get([0]) == {0: [(0, 0, 1)]}
    await store(broker, topic, [NewRecord(value=b"x" * 100_000)], partition=0)
    assert await waiting == {0: [(1, 1, 1)]}


async def test_limits_of_a_fetch(door: KafkaDoor, broker: Node, topic: str) -> None:
    await publish(broker, 10)
    member = await ShareMember.join(door, broker, topic)
    assert await member.get([0], max_records=3) == {0: [(0, 2, 1)]}
    assert await member.get(max_records=0) == {}
    # At least one batch, however large.
    assert await member.get(max_bytes=1) == {0: [(3, 3, 1)]}
    assert await member.get(max_bytes=150) == {0: [(4, 5, 1)]}
    # Acquired ranges are cut where batches end.
    assert await member.get(batch_size=3) == {0: [(6, 8, 1), (9, 9, 1)]}


async def test_batches_are_taken_whole_unless_asked_otherwise(
    door: KafkaDoor, broker: Node, topic: str
) -> None:
    await publish_batch(broker, 10)
    await publish_batch(broker, 10)
    member = await ShareMember.join(door, broker, topic)
    strict = await member.fetch([0], max_records=4, share_acquire_mode=1)
    assert ranges(strict) == {0: [(0, 3, 1)]}
    assert values(strict) == [b"0", b"1", b"2", b"3"]
    assert await member.get(max_records=4) == {0: [(4, 9, 1)]}
    assert await member.get(max_records=4, version=1) == {0: [(10, 19, 1)]}


@pytest.mark.parametrize("version", VERSIONS)
async def test_bad_acknowledgements_change_nothing(
    door: KafkaDoor, broker: Node, topic: str, version: int
) -> None:
    await publish(broker, 6)
    one = await ShareMember.join(door, broker, topic, name="one")
    two = await ShareMember.join(door, broker, topic, name="two")
    assert await one.get([0], max_records=4) == {0: [(0, 3, 1)]}
    await two.fetch([1])

    async def code(member: ShareMember, *batches: Any, **fields: Any) -> ErrorCode:
        answer = await member.acknowledge({0: list(batches)}, version=version, **fields)
        found: ErrorCode = parts(answer)[0].error_code
        return found

    malformed = ErrorCode.invalid_request
    assert await code(one, (3, 2, [ACCEPT])) is malformed
    assert await code(one, (0, 3, [])) is malformed
    assert await code(one, (0, 3, [ACCEPT, ACCEPT])) is malformed
    assert await code(one, (0, 0, [9])) is malformed
    assert await code(one, (0, 0, [-1])) is malformed
    assert await code(one, (0, 0, [RENEW])) is malformed
    assert await code(one, (0, 1, [ACCEPT]), (1, 2, [ACCEPT])) is malformed
    wrong_state = ErrorCode.invalid_record_state
    # Not acquired, of somebody else, and one bad one among good ones.
    assert await code(one, (4, 4, [ACCEPT])) is wrong_state
    assert await code(two, (0, 3, [ACCEPT])) is wrong_state
    assert await code(one, (0, 0, [ACCEPT]), (4, 4, [ACCEPT])) is wrong_state
    answer = await one.fetch(acks={0: [(0, 4, [REJECT])]}, version=version, max_records=0)
    assert acks_errors(answer) == {0: wrong_state}
    # Everything is as it was.
    assert await code(one, (0, 3, [ACCEPT])) is ErrorCode.none
    # Used before.
    assert await code(one, (0, 3, [ACCEPT])) is wrong_state
    assert await code(one) is ErrorCode.none


async def test_an_acknowledgement_of_an_unknown_topic(
    door: KafkaDoor, broker: Node, topic: str
) -> None:
    member = await ShareMember.join(door, broker, topic)
    await member.fetch([0])
    other = await BrokerService(broker).topics.create(ANYONE, NewTopic(name="gone", partitions=1))
    await BrokerService(broker).topics.delete(ANYONE, "gone")
    member.topic_id = other.topic.id
    answer = await member.acknowledge({0: [(0, 0, [ACCEPT])]})
    assert parts(answer)[0].error_code is ErrorCode.unknown_topic_id
    answer = await member.fetch([0])
    assert parts(answer)[0].error_code is ErrorCode.unknown_topic_id


async def test_renewing(door: KafkaDoor, broker: Node, topic: str) -> None:
    await publish(broker, 2)
    await BrokerService(broker).administration.alter_config(
        ANYONE,
        ConfigResource(ConfigResourceKind.GROUP, "g"),
        [ConfigChange(name="share.record.lock.duration.ms", value="400")],
    )
    one = await ShareMember.join(door, broker, topic, name="one")
    two = await ShareMember.join(door, broker, topic, name="two")
    answer = await one.fetch([0])
    assert answer.acquisition_lock_timeout.total_seconds() == 0.4
    assert ranges(answer) == {0: [(0, 1, 1)]}
    # Renewed for as long as the other one's lock lasts; only that one comes again.
    waiting = asyncio.create_task(two.get([0], max_wait=10_000))
    while not waiting.done():
        renewed = await one.acknowledge({0: [(0, 0, [RENEW])]}, is_renew_ack=True)
        assert parts(renewed)[0].error_code is ErrorCode.none
        await asyncio.sleep(0.02)
    assert waiting.result() == {0: [(1, 1, 2)]}
    refused = await one.fetch(acks={0: [(0, 0, [RENEW])]}, is_renew_ack=True)
    assert refused.error_code is ErrorCode.invalid_request
    nothing: dict[str, Any] = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait": 0}
    renewed = await one.fetch(acks={0: [(0, 0, [RENEW])]}, is_renew_ack=True, **nothing)
    assert acks_errors(renewed) == {0: ErrorCode.none}
    await BrokerService(broker).administration.alter_config(
        ANYONE,
        ConfigResource(ConfigResourceKind.GROUP, "g"),
        [ConfigChange(name="share.renew.acknowledge.enable", value="false")],
    )
    refused = await one.acknowledge({0: [(0, 0, [RENEW])]}, is_renew_ack=True)
    assert parts(refused)[0].error_code is ErrorCode.invalid_request


async def test_rejected_and_too_often_delivered_records_are_dead_letters(
    door: KafkaDoor, broker: Node, topic: str
) -> None:
    await publish(broker, 3)
    member = await ShareMember.join(door, broker, topic)
    assert await member.get([0]) == {0: [(0, 2, 1)]}
    acks = {0: [(0, 0, [REJECT]), (1, 1, [GAP]), (2, 2, [RELEASE])]}
    for count in range(2, 6):
        assert await member.get(acks=acks) == {0: [(2, 2, count)]}
        acks = {0: [(2, 2, [RELEASE])]}
    assert await member.get(acks=acks) == {}

    async def buried() -> Any:
        found: list[bytes] = []
        with contextlib.suppress(GoQueueError):
            for part in broker.topic("a.dlq").partitions:
                page = await read_records(broker, "a.dlq", part.index, 0, limit=10)
                found += [record.value or b"" for record in page.records]
        return sorted(found) if len(found) == 2 else None

    assert await until(buried) == [b"0", b"2"]


async def test_what_was_not_committed_is_not_delivered(
    door: KafkaDoor, broker: Node, topic: str, client: WireClient
) -> None:
    producer = TransactionalProducer(client)
    await producer.begin_id()
    await producer.send(b"aborted")
    await producer.end(commit=False)
    await publish(broker, 1)
    member = await ShareMember.join(door, broker, topic)
    answer = await member.fetch([0], max_wait=10_000)
    assert ranges(answer) == {0: [(2, 2, 1)]}
    assert values(answer) == [b"0"]
    await producer.send(b"open")
    await publish(broker, 1)
    # Behind the open transaction nothing is readable.
    assert await member.get() == {}
    waiting = asyncio.create_task(member.fetch(max_wait=10_000))
    await producer.end(commit=True)
    answer = await waiting
    assert ranges(answer) == {0: [(3, 4, 1)]}
    assert values(answer) == [b"open", b"0"]
    # A queue knows nothing of control batches.
    done = await member.acknowledge({0: [(2, 2, [ACCEPT])]})
    assert parts(done)[0].error_code is ErrorCode.none
    described = await BrokerService(broker).queues.describe(ANYONE, "g", topic)
    assert described[0].floor == 3


async def test_all_may_be_read_where_the_group_says_so(
    door: KafkaDoor, broker: Node, topic: str, client: WireClient
) -> None:
    change = ConfigChange(name="share.isolation.level", value="read_uncommitted")
    await BrokerService(broker).administration.alter_config(
        ANYONE, ConfigResource(ConfigResourceKind.GROUP, "g"), [change]
    )
    producer = TransactionalProducer(client)
    await producer.begin_id()
    await producer.send(b"open")
    member = await ShareMember.join(door, broker, topic)
    assert values(await member.fetch([0])) == [b"open"]


async def test_records_past_their_time_are_passed_over(
    door: KafkaDoor, broker: Node, topic: str
) -> None:
    records = [
        NewRecord(value=b"old", headers=(("goqueue-ttl-ms", b"1"),), timestamp_ms=1_000),
        NewRecord(value=b"new"),
    ]
    await store(broker, topic, records, partition=0)
    member = await ShareMember.join(door, broker, topic)
    answer = await member.fetch([0])
    assert values(answer) == [b"new"]


async def test_a_batch_that_cannot_be_looked_into_is_delivered_as_it_is(
    door: KafkaDoor, broker: Node, topic: str
) -> None:
    change = ConfigChange(name="queue.ttl.ms", value="1000000000000")
    await BrokerService(broker).administration.alter_config(
        ANYONE, ConfigResource(ConfigResourceKind.TOPIC, topic), [change]
    )
    bomb = one_huge_record("zstd", 64 * 1024 * 1024)
    broker.partition(topic, 0).append_own(bomb)
    broker.partition(topic, 0).append_own(batch(b"what no codec made", count=1, codec=4))
    member = await ShareMember.join(door, broker, topic)
    assert await member.get([0]) == {0: [(0, 1, 1)]}


async def test_urgent_records_come_first(door: KafkaDoor, broker: Node, topic: str) -> None:
    await publish_batch(broker, 1_000)
    urgent = NewRecord(value=b"urgent", headers=(("goqueue-priority", b"critical"),))
    await store(broker, topic, [urgent], partition=0)
    member = await ShareMember.join(door, broker, topic)
    answer = await member.fetch([0], max_records=5)
    assert b"urgent" in values(answer)
    assert len(values(answer)) == 5


class TestFewLocks:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"group.share.partition.max.record.locks": "2"}

    async def test_acknowledging_wakes_those_who_wait_for_a_lock(
        self, door: KafkaDoor, broker: Node, topic: str
    ) -> None:
        await publish(broker, 4)
        one = await ShareMember.join(door, broker, topic, name="one")
        two = await ShareMember.join(door, broker, topic, name="two")
        assert await one.get([0]) == {0: [(0, 1, 1)]}
        waiting = asyncio.create_task(two.get([0], max_wait=10_000))
        while not broker.partition(topic, 0).waiters:
            await asyncio.sleep(0)
        await one.acknowledge({0: [(0, 1, [ACCEPT])]})
        assert await waiting == {0: [(2, 3, 1)]}


@pytest.mark.parametrize("version", [0, 1])
async def test_offsets(
    door: KafkaDoor, broker: Node, topic: str, client: WireClient, version: int
) -> None:
    await publish(broker, 5)

    async def described(topics: Any, group_id: str = "g") -> Any:
        asked = {"group_id": group_id, "topics": topics}
        answer = await client.call("describe_share_group_offsets", version, groups=[asked])
        return answer.groups[0]

    async def alter(offset: int, name: str = topic, index: int = 0) -> Any:
        part = {"partition_index": index, "start_offset": offset}
        topics = [{"topic_name": name, "partitions": [part]}]
        return await client.call("alter_share_group_offsets", group_id="g", topics=topics)

    missing = await described(None)
    assert missing.error_code is ErrorCode.group_id_not_found
    # Altering makes the group.
    altered = await alter(2)
    assert altered.error_code is ErrorCode.none
    assert altered.responses[0].topic_id == broker.topic(topic).id
    assert altered.responses[0].partitions[0].error_code is ErrorCode.none
    found = await described([{"topic_name": topic, "partitions": [0, 1, 9]}])
    zero, one, nine = found.topics[0].partitions
    assert (zero.start_offset, zero.error_code) == (2, ErrorCode.none)
    assert one.start_offset == 0
    assert nine.error_code is ErrorCode.unknown_topic_or_partition
    if version >= 1:
        assert zero.lag == 3
    assert [t.topic_name for t in (await described(None)).topics] == [topic]
    unknown = ErrorCode.unknown_topic_or_partition
    bad = (await alter(0, "nothing")).responses[0].partitions[0]
    assert bad.error_code is unknown
    assert (await alter(0, index=9)).responses[0].partitions[0].error_code is unknown
    bad = (await alter(-1)).responses[0].partitions[0]
    assert bad.error_code is ErrorCode.invalid_request
    found = await described([{"topic_name": "nothing", "partitions": [0]}])
    assert found.topics[0].partitions[0].error_code is unknown
    # Members see it, and keep others from changing it.
    member = await ShareMember.join(door, broker, topic)
    assert await member.get([0]) == {0: [(2, 4, 1)]}
    assert (await alter(0)).error_code is ErrorCode.non_empty_group

    async def delete() -> Any:
        return await client.call(
            "delete_share_group_offsets",
            group_id="g",
            topics=[{"topic_name": topic}, {"topic_name": "nothing"}],
        )

    assert (await delete()).error_code is ErrorCode.non_empty_group
    await member.heartbeat(member_epoch=-1)
    deleted = await delete()
    assert deleted.error_code is ErrorCode.none
    assert [t.error_code for t in deleted.responses] == [ErrorCode.none, unknown]
    found = await described([{"topic_name": topic, "partitions": [0]}])
    assert found.topics[0].partitions[0].start_offset == -1
    assert found.topics[0].partitions[0].error_code is ErrorCode.none


async def test_deleting_a_group_forgets_what_it_acknowledged(
    door: KafkaDoor, broker: Node, topic: str, client: WireClient
) -> None:
    await publish(broker, 1)
    member = await ShareMember.join(door, broker, topic)
    assert await member.get([0]) == {0: [(0, 0, 1)]}
    await member.acknowledge({0: [(0, 0, [ACCEPT])]})

    async def deleted() -> ErrorCode:
        answer = await client.call("delete_groups", groups_names=["g"])
        code: ErrorCode = answer.results[0].error_code
        return code

    assert await deleted() is ErrorCode.non_empty_group
    await member.heartbeat(member_epoch=-1)
    assert await deleted() is ErrorCode.none
    assert await deleted() is ErrorCode.group_id_not_found
    again = await ShareMember.join(door, broker, topic, name="again")
    assert await again.get([0]) == {0: [(0, 0, 1)]}


async def test_groups_are_described_and_listed(
    door: KafkaDoor, broker: Node, topic: str, client: WireClient
) -> None:
    await ShareMember.join(door, broker, topic, name="one")
    answer = await client.call("share_group_describe", group_ids=["g", "other"])
    group, other = answer.groups
    assert (group.group_state, group.group_epoch, group.assignor_name) == ("Stable", 1, "simple")
    member = group.members[0]
    assert (member.member_id, member.subscribed_topic_names) == ("one", (topic,))
    assert member.assignment.topic_partitions[0].topic_name == topic
    assert member.assignment.topic_partitions[0].partitions == (0, 1)
    assert member.client_host == "/127.0.0.1"
    assert other.error_code is ErrorCode.group_id_not_found
    listed = await client.call("list_groups", types_filter=["share"])
    assert [(g.group_id, g.group_type, g.group_state) for g in listed.groups] == [
        ("g", "Share", "Stable")
    ]
    described = await client.call("describe_groups", groups=["g"])
    assert described.groups[0].error_code is ErrorCode.group_id_not_found
    joined = await client.call(
        "join_group",
        group_id="g",
        protocol_type="consumer",
        session_timeout=10_000,
        rebalance_timeout=10_000,
        protocols=[{"name": "range", "metadata": b""}],
    )
    assert joined.error_code is ErrorCode.inconsistent_group_protocol


async def test_settings_of_groups(broker: Node, topic: str, client: WireClient) -> None:
    async def alter(name: str, value: str | None, op: int = 0) -> ErrorCode:
        change = {"name": name, "value": value, "config_operation": op}
        resource = {"resource_type": GROUP, "resource_name": "h", "configs": [change]}
        answer = await client.call("incremental_alter_configs", resources=[resource])
        code: ErrorCode = answer.responses[0].error_code
        return code

    async def described(name: str) -> tuple[str, int]:
        resource = {"resource_type": GROUP, "resource_name": "h", "configuration_keys": [name]}
        answer = await client.call("describe_configs", resources=[resource])
        entry = answer.results[0].configs[0]
        return entry.value, entry.config_source

    assert await described("share.auto.offset.reset") == ("latest", 5)
    assert await alter("share.auto.offset.reset", "by_duration:PT1H") is ErrorCode.none
    assert await described("share.auto.offset.reset") == ("by_duration:PT1H", 8)
    for bad in ("sometime", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:P1M"):
        assert await alter("share.auto.offset.reset", bad) is ErrorCode.invalid_config
    assert await alter("share.session.timeout.ms", "0") is ErrorCode.invalid_config
    assert await alter("share.nothing", "1") is ErrorCode.invalid_config
    assert await alter("share.session.timeout.ms", "7000") is ErrorCode.none
    assert await alter("share.heartbeat.interval.ms", "700") is ErrorCode.none
    own = ConfigChange(name="consumer.heartbeat.interval.ms", value="800")
    await BrokerService(broker).administration.alter_config(
        ANYONE, ConfigResource(ConfigResourceKind.GROUP, "c"), [own]
    )
    beat = await client.call(
        "share_group_heartbeat", group_id="h", member_id="m", subscribed_topic_names=[topic]
    )
    assert beat.heartbeat_interval.total_seconds() == 0.7
    listed = await client.call("list_config_resources", resource_types=[GROUP])
    assert [r.resource_name for r in listed.config_resources] == ["g", "h", "c"]
    assert await alter("share.heartbeat.interval.ms", None, op=1) is ErrorCode.none
    assert await described("share.heartbeat.interval.ms") == ("5000", 5)
    resource = {
        "resource_type": GROUP,
        "resource_name": "h",
        "configs": [{"name": "share.isolation.level", "value": "read_uncommitted"}],
    }
    replaced = await client.call("alter_configs", resources=[resource])
    assert replaced.responses[0].error_code is ErrorCode.none
    assert await described("share.session.timeout.ms") == ("45000", 5)
    beat = await client.call(
        "consumer_group_heartbeat",
        group_id="c",
        member_id="m",
        subscribed_topic_names=[topic],
        rebalance_timeout=1_000,
        topic_partitions=(),
    )
    assert beat.heartbeat_interval.total_seconds() == 0.8


async def test_a_new_group_begins_where_its_settings_say(
    door: KafkaDoor, broker: Node, topic: str
) -> None:
    records = [NewRecord(value=b"old", timestamp_ms=broker.clock_ms() - 7_200_000)]
    await store(broker, topic, records, partition=0)
    await publish(broker, 1)
    for group, reset, expected in (
        ("late", None, {}),
        ("hour", "by_duration:PT1H", {0: [(1, 1, 1)]}),
        ("day", "by_duration:P1D", {0: [(0, 1, 1)]}),
    ):
        if reset is not None:
            change = ConfigChange(name="share.auto.offset.reset", value=reset)
            await BrokerService(broker).administration.alter_config(
                ANYONE, ConfigResource(ConfigResourceKind.GROUP, group), [change]
            )
        member = await ShareMember.join(door, broker, topic, group_id=group)
        assert await member.get([0]) == expected
        if group == "late":
            await store(broker, topic, [NewRecord(value=b"newest")], partition=1)
            assert await member.get([1]) == {1: [(0, 0, 1)]}


async def test_share_coordinators_are_found(client: WireClient, broker: Node) -> None:
    key = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
    found = await client.call("find_coordinator", 6, key_type=2, coordinator_keys=[key, "g"])
    assert [c.error_code for c in found.coordinators] == [ErrorCode.none, ErrorCode.invalid_request]
    old = await client.call("find_coordinator", 5, key_type=2, coordinator_keys=[key])
    assert old.coordinators[0].error_code is ErrorCode.invalid_request
    versions = await client.call(
        "api_versions", client_software_name="t", client_software_version="1"
    )
    assert ("share.version", 1) in [
        (f.name, f.max_version_level) for f in versions.finalized_features
    ]


@pytest.mark.parametrize("comes_back", [False, True])
async def test_a_topic_that_is_deleted_while_a_fetch_waits(
    door: KafkaDoor, broker: Node, topic: str, comes_back: bool
) -> None:
    member = await ShareMember.join(door, broker, topic)
    assert await member.get([0, 1]) == {}
    waiting = asyncio.create_task(member.fetch(max_wait=20_000))
    machines = BrokerService(broker)
    await asyncio.sleep(0.05)
    await machines.topics.delete(ANYONE, topic)
    if comes_back:
        await machines.topics.create(ANYONE, NewTopic(name=topic, partitions=2))
    async with asyncio.timeout(10):
        answer = await waiting
    assert answer.error_code is ErrorCode.none
    codes = {part.error_code for part in parts(answer).values()}
    assert codes == {ErrorCode.unknown_topic_id}
    # Its connection goes on.
    assert (await member.heartbeat()).error_code is ErrorCode.none
