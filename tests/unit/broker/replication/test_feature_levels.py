"""A broker of an earlier release is in the cluster: what it would misread waits for its upgrade."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import pytest

from goqueue.metadata.store import Delete
from goqueue.model.configs import ConfigChange, ConfigOp, ConfigResource, ConfigResourceKind
from goqueue.model.errors import NotLeader, OlderBrokers
from goqueue.model.groups.streams_messages import StreamsGroupHeartbeat
from goqueue.model.groups.tasks import NO_TASKS
from goqueue.model.membership import FEATURE_LEVEL
from goqueue.model.names import NodeId, topic_partition
from goqueue.model.replication_config import LEADER_RATE, MOVES_PAUSED
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.service.security.access import Access
from goqueue.state import metadata_keys as keys
from tests.callers import ANYONE
from tests.unit.broker.replication.nodes import TOPIC, Nodes, RunningNode, with_nodes
from tests.unit.state.groups.streams.streams_world import COPY

OLD = NodeId(9)
OTHER = "other"
Kind = ConfigResourceKind


async def add_earlier_broker(nodes: Nodes) -> None:
    """The cluster is as the earlier release began it, and has one of its brokers."""
    one = nodes.running[1]
    await nodes.store.put(*keys.feature_level_entry(1))
    key = keys.broker_key(NodeId(1))
    stored = (await nodes.store.get(key)).one
    assert stored is not None
    value = keys.decode_value(key, stored.value, keys.BrokerValue)
    assert value.registration is not None
    earlier = msgspec.structs.replace(value.registration, feature_level=1)
    entry = keys.broker_entry(OLD, msgspec.structs.replace(value, registration=earlier))
    await nodes.store.put(*entry)
    await nodes.until(lambda: OLD in one.node.image.nodes and one.node.image.feature_level == 1)


async def remove_earlier_broker(nodes: Nodes) -> None:
    one = nodes.running[1]
    await nodes.store.transact((), [Delete(keys.broker_key(OLD))])
    await nodes.until(lambda: OLD not in one.node.image.brokers)


async def forget_earlier_broker(nodes: Nodes) -> None:
    one = nodes.running[1]
    await nodes.store.transact((), [Delete(keys.node_key(OLD))])
    await nodes.until(lambda: OLD not in one.node.image.nodes)


def change(kind: ConfigResourceKind, resource: str, name: str, value: str) -> "Use":
    async def use(service: BrokerService) -> None:
        changes = [ConfigChange(name=name, op=ConfigOp.SET, value=value)]
        await service.administration.alter_config(
            ANYONE, ConfigResource(kind, resource), changes, validate_only=False
        )

    return use


async def move(service: BrokerService) -> None:
    place = topic_partition(TOPIC, 0)
    failure = (await service.replica_moves.alter(ANYONE, {place: (2,)}))[place]
    if failure is not None:
        raise failure


async def split(service: BrokerService) -> None:
    await service.topics.split(ANYONE, TOPIC, 2)


async def add_partitions(service: BrokerService) -> None:
    await service.topics.create_partitions(ANYONE, OTHER, 2)


async def create_with_growth(service: BrokerService) -> None:
    config = {"partition.growth": "plain"}
    await service.topics.create(ANYONE, NewTopic(name="new", partitions=1, config=config))


async def join_streams_group(service: BrokerService) -> None:
    beat = StreamsGroupHeartbeat(
        group_id="streams",
        member_id="m",
        member_epoch=0,
        topology=COPY,
        process_id="p",
        rebalance_timeout_ms=60_000,
        owned=NO_TASKS,
    )
    # Any broker is asked here, not the group's coordinator.
    with contextlib.suppress(NotLeader):
        await service.streams_groups.heartbeat(ANYONE, beat)


Use = Callable[[BrokerService], Awaitable[None]]
# Everything that raises the level, as it is asked for.
USES: Mapping[str, Use] = {
    "a move": move,
    "a split": split,
    "partitions by Kafka's request": add_partitions,
    "a topic with a newer setting": create_with_growth,
    "a newer setting of a topic": change(Kind.TOPIC, TOPIC, "partition.growth", "plain"),
    "a newer setting of a group": change(Kind.GROUP, "g", "streams.num.standby.replicas", "1"),
    "a streams group": join_streams_group,
    "a newer setting of a broker": change(Kind.BROKER, "1", "max.connections", "500"),
    "a newer setting of all brokers": change(Kind.BROKER, "", MOVES_PAUSED, "false"),
    "a newer default of topics": change(Kind.BROKER, "", "topic.partition.growth", "plain"),
    "a subscription to client metrics": change(Kind.CLIENT_METRICS, "s", "metrics", "*"),
}


@with_nodes
async def test_it_waits_until_all_brokers_are_upgraded(nodes: Nodes) -> None:
    one, _ = await nodes.start(1, 2, default__replication__factor="1")
    await nodes.make_topic(replicas=(1,))
    await one.service.topics.create(ANYONE, NewTopic(name=OTHER, partitions=1))
    await add_earlier_broker(nodes)
    before = await everything_stored(nodes)
    for use in USES.values():
        with pytest.raises(OlderBrokers, match=r"needs feature level 2, .*: 9; upgrade"):
            await use(one.service)
    # It may come back as it was: as long as it is only down, nothing is stored either.
    await remove_earlier_broker(nodes)
    for use in USES.values():
        with pytest.raises(OlderBrokers, match=r"9 \(down\)"):
            await use(one.service)
    assert await everything_stored(nodes) == before
    await forget_earlier_broker(nodes)
    for name, use in USES.items():
        await nodes.store.put(*keys.feature_level_entry(1))
        await nodes.until(lambda: one.node.image.feature_level == 1)
        await use(one.service)
        assert one.node.image.feature_level == 2, name


async def everything_stored(nodes: Nodes) -> dict[str, bytes]:
    """But for what says who is there."""
    stored = (await nodes.store.get_prefix(keys.ROOT_PREFIX)).kvs
    passing = (keys.BROKERS_PREFIX, keys.NODES_PREFIX, keys.PARTITIONS_PREFIX)
    return {kv.key: kv.value for kv in stored if not kv.key.startswith(passing)}


@with_nodes
async def test_what_the_earlier_release_knows_goes_on(nodes: Nodes) -> None:
    one, _ = await nodes.start(1, 2, default__replication__factor="1")
    await nodes.make_topic(replicas=(1,))
    await add_earlier_broker(nodes)
    service = one.service
    await change(Kind.TOPIC, TOPIC, "retention.ms", "1000")(service)
    await change(Kind.BROKER, "", LEADER_RATE, "1000")(service)
    await change(Kind.BROKER, "", "topic.retention.ms", "2000")(service)
    await change(Kind.GROUP, "g", "consumer.session.timeout.ms", "50000")(service)
    # As Kafka adds partitions: nothing is stored of it but the partitions.
    topics, right = one.node.topics, Access().alterable_topic(ANYONE, TOPIC)
    await topics.create_partitions(right, 3, is_ordered=False)
    assert len(topics.find(TOPIC).partitions) == 3
    # Who is no member, and does not join, makes no group.
    beat = StreamsGroupHeartbeat(group_id="streams", member_id="m", member_epoch=1)
    with contextlib.suppress(NotLeader):
        await service.streams_groups.heartbeat(ANYONE, beat)
    assert one.node.image.feature_level == 1


@with_nodes
async def test_a_backup_needs_those_who_are_there(nodes: Nodes) -> None:
    one, _ = await nodes.start(1, 2, default__replication__factor="1")
    await add_earlier_broker(nodes)
    with pytest.raises(OlderBrokers, match=r"backups: needs feature level 2"):
        await one.service.backups.begin(ANYONE, 1_000)
    await remove_earlier_broker(nodes)
    assert await one.service.backups.begin(ANYONE, 1_000)
    # Nothing is stored that it could misread.
    assert one.node.image.feature_level == 1


@with_nodes
async def test_whoever_stops_in_order_leaves_its_level_behind(nodes: Nodes) -> None:
    """Also where a controller of an earlier release had admitted it, which does not note it."""
    one, two = await nodes.start(1, 2, default__replication__factor="1")
    await nodes.make_topic(replicas=(1,))
    await nodes.store.put(*keys.feature_level_entry(1))
    known = one.node.image.nodes[NodeId(2)].record
    assert known.feature_level == FEATURE_LEVEL
    entry = keys.node_entry(NodeId(2), msgspec.structs.replace(known, feature_level=1))
    await nodes.store.put(*entry)
    await nodes.until(lambda: level_of(two) == 1)
    await nodes.stop(2)
    await nodes.until(lambda: level_of(one) == FEATURE_LEVEL)
    await split(one.service)


def level_of(seen_by: RunningNode) -> int:
    return seen_by.node.image.nodes[NodeId(2)].record.feature_level
