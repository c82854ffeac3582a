"""Who may join which groups, and read, see and forget offsets of which topics."""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest

from goqueue.broker.node import Node
from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.errors import (
    ClusterAccessDenied,
    GroupAccessDenied,
    TopicAccessDenied,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.hosted_members import ClassicJoin, CooperativeJoin, OffsetReset
from goqueue.model.groups.messages import (
    JOIN_EPOCH,
    Client,
    ConsumerGroupHeartbeat,
    Heartbeat,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
)
from goqueue.model.names import topic_partition
from goqueue.model.queues.receiving import Receive
from goqueue.model.records import NewRecord
from goqueue.model.rights import Verb
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE, SQS_READER
from tests.publishing import publish
from tests.rules import Grant, Granted, cluster, group, topic
from tests.unit.broker.conftest import OpenBroker

pytestmark = pytest.mark.anyio

SECRET = "canary-topic"
NONE, REFUSED = GroupError.NONE, GroupError.TOPIC_AUTHORIZATION_FAILED
UNKNOWN = GroupError.UNKNOWN_TOPIC_OR_PARTITION
CLIENT = Client(client_id="test")


@pytest.fixture
async def broker(open_broker: OpenBroker) -> AsyncIterator[Node]:
    """Two topics of one partition and one message each; `g` has an offset in both."""
    async with open_broker() as opened:
        for name in ("open", SECRET):
            await BrokerService(opened).topics.create(ANYONE, NewTopic(name=name, partitions=1))
            await publish(opened, name, [NewRecord(value=name.encode())])
        offsets = tuple(to_commit(name, 0) for name in ("open", SECRET))
        await BrokerService(opened).groups.commit(
            ANYONE, OffsetCommit(group_id="g", offsets=offsets)
        )
        yield opened


def to_commit(name: str, offset: int, partition: int = 0) -> OffsetToCommit:
    return OffsetToCommit(topic=name, partition=partition, offset=offset)


def allowed(broker: Node, *grants: Grant) -> BrokerService:
    return BrokerService(broker, Granted(*grants))


async def offsets_of(broker: Node) -> dict[str, int]:
    found = await BrokerService(broker).groups.fetch_offsets(ANYONE, OffsetFetch(group_id="g"))
    return {each.topic: each.offset for each in found.offsets}


# --- offsets ------------------------------------------------------------------------------


async def test_each_topic_of_a_commit_is_refused_by_itself_in_the_order_asked(
    broker: Node,
) -> None:
    service = allowed(broker, group("g", Verb.READ), topic("open", Verb.READ))
    wanted = (to_commit(SECRET, 5), to_commit("open", 7), to_commit("open", 8, partition=3))
    done = await service.groups.commit(ANYONE, OffsetCommit(group_id="g", offsets=wanted))
    assert [each.error for each in done.partitions] == [REFUSED, NONE, UNKNOWN]
    assert [each.topic for each in done.partitions] == [SECRET, "open", "open"]
    assert await offsets_of(broker) == {SECRET: 0, "open": 7}


async def test_offsets_of_topics_one_may_not_see_are_refused_by_name_else_left_out(
    broker: Node,
) -> None:
    service = allowed(broker, group("g", Verb.DESCRIBE), topic("open", Verb.DESCRIBE))
    everything = await service.groups.fetch_offsets(ANYONE, OffsetFetch(group_id="g"))
    assert [each.topic for each in everything.offsets] == ["open"]
    named = OffsetFetch(group_id="g", topics={SECRET: [0], "open": [0]})
    found = await service.groups.fetch_offsets(ANYONE, named)
    assert {each.topic: (each.offset, each.error) for each in found.offsets} == {
        "open": (0, NONE),
        SECRET: (-1, REFUSED),
    }
    seen = await service.groups.overview(ANYONE, "g")
    positions = await service.groups.positions(ANYONE, seen)
    assert [(each.place.topic, each.lag) for each in positions] == [("open", 1)]


async def test_offsets_are_forgotten_where_the_topic_may_be_read(broker: Node) -> None:
    service = allowed(broker, group("g", Verb.DELETE), topic("open", Verb.READ))
    request = OffsetDelete(group_id="g", topics={SECRET: [0], "open": [0, 9]})
    done = await service.groups.delete_offsets(ANYONE, request)
    assert {(each.topic, each.partition): each.error for each in done.partitions} == {
        (SECRET, 0): REFUSED,
        ("open", 0): NONE,
        ("open", 9): UNKNOWN,
    }
    assert await offsets_of(broker) == {SECRET: 0}


# --- groups -------------------------------------------------------------------------------


async def test_groups_are_listed_as_far_as_they_may_be_seen(broker: Node) -> None:
    other = OffsetCommit(group_id="other", offsets=(to_commit("open", 0),))
    await BrokerService(broker).groups.commit(ANYONE, other)

    async def listed(*grants: Grant) -> set[str]:
        found = await allowed(broker, *grants).groups.list(ANYONE, ListGroups())
        return {each.group_id for each in found}

    assert await listed() == set()
    assert await listed(group("g", Verb.DESCRIBE)) == {"g"}
    assert await listed(cluster(Verb.DESCRIBE)) == {"g", "other"}


async def test_without_rights_groups_cannot_be_touched(broker: Node) -> None:
    nobody = allowed(broker)
    for attempt in (
        nobody.groups.heartbeat(ANYONE, Heartbeat(group_id="g", generation_id=0, member_id="m")),
        nobody.groups.describe(ANYONE, "g"),
        nobody.groups.delete(ANYONE, "g"),
        nobody.groups.overview(ANYONE, "there is none"),
        nobody.groups.rebalances(ANYONE, "g"),
        nobody.members.poll(ANYONE, "g", "m", max_records=1, timeout_ms=0),
        nobody.members.leave(ANYONE, "g", "m", None),
    ):
        with pytest.raises(GroupAccessDenied):
            await attempt
    with pytest.raises(ClusterAccessDenied):
        await nobody.groups.all_rebalances(ANYONE)
    assert await offsets_of(broker) == {SECRET: 0, "open": 0}


# --- members ------------------------------------------------------------------------------


async def test_a_regular_expression_brings_only_topics_that_may_be_seen(broker: Node) -> None:
    service = allowed(broker, group("new", Verb.READ), topic("open", Verb.DESCRIBE))
    beat = ConsumerGroupHeartbeat(
        group_id="new",
        member_id="m",
        member_epoch=JOIN_EPOCH,
        rebalance_timeout_ms=60_000,
        subscribed_topics=(),
        subscribed_regex="open|canary-.*",
        owned={},
        client=CLIENT,
    )
    given = (await service.groups.consumer_heartbeat(ANYONE, beat)).assignment
    assert given is not None
    assert set(given) == {broker.image.topics["open"].id}
    assert await assigned_topics(broker) == {"open"}


async def assigned_topics(broker: Node) -> set[str]:
    """As the coordinator has it."""
    (member,) = (await BrokerService(broker).groups.overview(ANYONE, "new")).members
    return {place.topic for place in member.held}


async def test_what_may_be_seen_and_not_read_is_no_topic_of_a_member_that_lives_here(
    broker: Node,
) -> None:
    """Nobody would say so: it is not read, and the client does not know of it."""
    rules = Granted(group("new", Verb.READ), topic("open", Verb.READ), topic(SECRET, Verb.DESCRIBE))
    members = BrokerService(broker, rules).members
    wanted = CooperativeJoin(
        group_id="new",
        topic_regex="open|canary-.*",
        offset_reset=OffsetReset.EARLIEST,
        client=CLIENT,
    )
    member = await members.join_cooperative(ANYONE, wanted)
    assert await assigned_topics(broker) == {"open"}
    rules.grants.add(topic(SECRET, Verb.READ))
    broker.groups.rights_changed()
    async with asyncio.timeout(10):
        while await assigned_topics(broker) != {"open", SECRET}:
            await members.heartbeat_cooperative(ANYONE, "new", member.member_id, None)
            # Nothing else lets others run.
            await asyncio.sleep(0)


async def test_naming_a_topic_that_may_not_be_seen_refuses_the_heartbeat(broker: Node) -> None:
    service = allowed(broker, group("new", Verb.READ))
    beat = ConsumerGroupHeartbeat(
        group_id="new", member_id="m", member_epoch=JOIN_EPOCH, subscribed_topics=(SECRET,)
    )
    with pytest.raises(TopicAccessDenied):
        await service.groups.consumer_heartbeat(ANYONE, beat)


async def test_topics_of_members_are_shown_as_far_as_they_may_be_seen(broker: Node) -> None:
    beat = ConsumerGroupHeartbeat(
        group_id="new",
        member_id="m",
        member_epoch=JOIN_EPOCH,
        rebalance_timeout_ms=60_000,
        subscribed_topics=("open", SECRET),
        owned={},
        client=CLIENT,
    )
    await BrokerService(broker).groups.consumer_heartbeat(ANYONE, beat)
    whole = (await BrokerService(broker).groups.overview(ANYONE, "new")).members[0]
    assert {place.topic for place in whole.held} == set(whole.topics) == {"open", SECRET}
    seer = allowed(broker, group("new", Verb.DESCRIBE), topic("open", Verb.DESCRIBE)).groups
    # Kafka's own request is refused as a whole.
    with pytest.raises(TopicAccessDenied) as refused:
        await seer.describe_consumer(ANYONE, "new")
    assert SECRET not in refused.value.message
    (member,) = (await seer.overview(ANYONE, "new")).members
    assert {place.topic for place in member.held} == set(member.topics) == {"open"}
    found = await seer.find_consumer(ANYONE, "new")
    assert found.members[0].subscribed_topics == ("open",)
    assert [place.topic for place in found.named(found.members[0].target)] == ["open"]


async def test_a_member_that_lives_here_reads_only_what_its_client_may_read(broker: Node) -> None:
    reads = [topic("open", verb) for verb in (Verb.READ, Verb.DESCRIBE)]
    service = allowed(broker, group("new", Verb.READ), *reads)
    wanted = CooperativeJoin(
        group_id="new",
        topic_regex="open|canary-.*",
        offset_reset=OffsetReset.EARLIEST,
        client=CLIENT,
    )
    member = await service.members.join_cooperative(ANYONE, wanted)
    assert member.assigned == {topic_partition("open", 0)}
    found = await service.members.poll(
        ANYONE, "new", member.member_id, max_records=10, timeout_ms=100
    )
    assert [each.record.value for each in found.records] == [b"open"]
    with pytest.raises(TopicAccessDenied):
        await service.members.commit(
            ANYONE,
            "new",
            [to_commit("open", 1), to_commit(SECRET, 1)],
            member_id=member.member_id,
            epoch=None,
        )


async def test_rights_that_are_taken_away_count_from_the_next_poll_on(broker: Node) -> None:
    rules = Granted(group("new", Verb.READ), topic("open", Verb.READ))
    members = BrokerService(broker, rules).members
    wanted = ClassicJoin(
        group_id="new",
        topics=("open",),
        offset_reset=OffsetReset.EARLIEST,
        auto_commit=True,
        client=CLIENT,
    )
    member = await members.join(ANYONE, wanted)
    found = await members.poll(ANYONE, "new", member.member_id, max_records=10, timeout_ms=0)
    assert len(found.records) == 1
    rules.grants.remove(topic("open", Verb.READ))
    await publish(broker, "open", [NewRecord(value=b"later")])
    found = await members.poll(ANYONE, "new", member.member_id, max_records=10, timeout_ms=0)
    assert found.records == []
    # It may still leave, and commits nothing that it could not commit by hand.
    await members.leave(ANYONE, "new", member.member_id, None)
    request = OffsetFetch(group_id="new")
    (committed,) = (await BrokerService(broker).groups.fetch_offsets(ANYONE, request)).offsets
    assert committed.offset == 0


async def test_who_joins_must_be_allowed_to_read_every_topic(broker: Node) -> None:
    service = allowed(broker, group("new", Verb.READ), topic("open", Verb.READ))
    wanted = ClassicJoin(group_id="new", topics=("open", SECRET), client=CLIENT)
    with pytest.raises(TopicAccessDenied):
        await service.members.join(ANYONE, wanted)


@pytest.mark.parametrize("tenant", ["", "acme"])
@pytest.mark.parametrize("name", ["sqs", "goqueue.redrive"])
async def test_the_brokers_own_groups_are_not_for_clients(
    broker: Node, name: str, tenant: str
) -> None:
    """Also while security is off, and of tenants."""
    inner = f"{tenant}@{name}" if tenant else name
    service = BrokerService(broker)
    for door in (Door.HTTP, Door.KAFKA):
        caller = Caller(principal=Principal("User", "alice", tenant), door=door)
        forbidden: list[Awaitable[object]] = [
            service.groups.delete(caller, inner),
            service.groups.find_and_delete(caller, inner),
            service.groups.delete_offsets(caller, OffsetDelete(group_id=inner, topics={})),
            service.groups.commit(caller, OffsetCommit(group_id=inner, offsets=())),
            service.groups.heartbeat(
                caller, Heartbeat(group_id=inner, member_id="m", generation_id=1)
            ),
            service.share_groups.delete_offsets(caller, inner, ["open"]),
            service.queues.receive(caller, inner, "open", Receive(max_messages=1, start="latest")),
            service.queues.settle(caller, inner, []),
        ]
        for asked in forbidden:
            with pytest.raises(GroupAccessDenied, match=f"'{name}' is the broker's own"):
                await asked


async def test_sqs_reads_with_its_own_group(broker: Node) -> None:
    request = Receive(max_messages=1)
    queues = BrokerService(broker).queues
    [found] = await queues.receive(SQS_READER, "sqs", "open", request)
    assert found.record.value == b"open"
    with pytest.raises(GroupAccessDenied):
        await queues.receive(SQS_READER, "goqueue.redrive", "open", request)
