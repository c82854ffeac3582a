"""Topics of a cluster: where their partitions come, and how they are stored in steps."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID, uuid4

import msgspec
import pytest

from goqueue.broker.own_grants import own_state
from goqueue.broker.topics.broker_configs import BrokerConfigs
from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.configs import BrokerOverrides, broker_entries, topic_entries
from goqueue.broker.topics.following import MetadataFollower
from goqueue.broker.topics.topics import TopicAdmin
from goqueue.metadata import Compare, LocalStore, TxnResult
from goqueue.metadata.store import Op
from goqueue.model.broker_config import broker_config
from goqueue.model.companions import KINDS, companion_of
from goqueue.model.configs import ConfigChange, ConfigSource
from goqueue.model.errors import (
    Conflict,
    InvalidConfig,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    MetadataUnavailable,
    PolicyViolation,
    TooFewBrokers,
    TopicExists,
)
from goqueue.model.membership import FEATURE_LEVEL, NodeRecord, Registration
from goqueue.model.names import NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.model.rights import (
    AlterableTopic,
    ConfigurableCluster,
    ConfigurableTopic,
    CreatableTopic,
    DeletableTopic,
    InspectableCluster,
)
from goqueue.model.topics import NewTopic
from goqueue.state import metadata_keys as keys
from goqueue.state.controller.commit_settings import CommitSettings
from goqueue.state.metadata_image import ImageChanges, MetadataImage

pytestmark = pytest.mark.anyio

ONE, TWO, THREE, FOUR = (NodeId(i) for i in (1, 2, 3, 4))
ORDERS = CreatableTopic("orders")
FOLDER = UUID(int=7)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def changed(name: str, value: str) -> ConfigChange:
    return ConfigChange(name=name, value=value)


class Recording(LocalStore):
    """Counts what transactions hold, and lets a test act before one of them."""

    largest: int
    before: Callable[[int], object] | None
    count: int

    async def transact(
        self, compares: Sequence[Compare], success_ops: Sequence[Op], failure_ops: Sequence[Op] = ()
    ) -> TxnResult:
        self.largest = max(self.largest, len(compares), len(success_ops), len(failure_ops))
        self.count += 1
        if self.before is not None:
            acting = self.before(self.count)
            if acting is not None:
                await acting  # type: ignore[misc]
        return await super().transact(compares, success_ops, failure_ops)


class Cluster:
    """The metadata of three brokers, and one that makes topics."""

    def __init__(self, store: Recording, **settings: str) -> None:
        async def prepare(_changes: ImageChanges, _image: MetadataImage) -> None:
            return None

        self.store = store
        self.follower = MetadataFollower(store, prepare=prepare, react=lambda *_: None)
        texts = {
            "node.id": "1",
            "default.replication.factor": "3",
            "topic.min.insync.replicas": "2",
            **{name.replace("__", "."): text for name, text in settings.items()},
        }
        config = broker_config(texts)
        configs = BrokerConfigs(KeyChanges(store, self.follower), self.follower, config)
        self.configs = configs
        self.topics = TopicAdmin(store, self.follower, config, configs)

    async def join(
        self, node: NodeId, rack: str | None = None, *, is_cordoned: bool = False
    ) -> int:
        """Returns the broker epoch."""
        said = Registration(
            directory=FOLDER,
            trail=(uuid4(),),
            is_kept=True,
            is_cordoned=is_cordoned,
            feature_level=FEATURE_LEVEL,
        )
        value = keys.BrokerValue(host="h", kafka_port=1, http_port=2, rack=rack, registration=said)
        epoch = await self.store.put(*keys.broker_entry(node, value))
        record = NodeRecord(
            directory=FOLDER,
            incarnation=said.incarnation,
            broker_epoch=epoch,
            is_cordoned=is_cordoned,
            feature_level=FEATURE_LEVEL,
        )
        await self.follower.applied(await self.store.put(*keys.node_entry(node, record)))
        return epoch

    async def die(self, node: NodeId) -> None:
        await self.store.delete(keys.broker_key(node))
        await self.seen()

    async def seen(self) -> None:
        revision = await self.store.put("/elsewhere", b"")
        await self.follower.applied(revision)

    def states(self, topic: str) -> list[PartitionState]:
        return [partition.state for partition in self.topics.find(topic).partitions]

    async def left(self, topic: str) -> list[str]:
        """Keys of the topic in the store, of any kind."""
        found = await self.store.get_prefix("/")
        return [kv.key for kv in found.kvs if topic in kv.key]


@asynccontextmanager
async def opened(path: Path, *nodes: NodeId, **settings: str) -> AsyncIterator[Cluster]:
    store = await Recording.open(path)
    store.largest = store.count = 0
    store.before = None
    cluster = Cluster(store, **settings)
    await cluster.follower.load()
    cluster.follower.start()
    for node in nodes:
        await cluster.join(node)
    store.count = 0
    try:
        yield cluster
    finally:
        store.before = None
        await cluster.follower.stop()
        await store.close()


async def test_partitions_begin_in_sync_on_all_their_brokers(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE) as cluster:
        await cluster.topics.create(ORDERS, NewTopic(name="orders", partitions=3))
        states = cluster.states("orders")
        epochs = cluster.follower.image.admitted()
        assert Counter(state.leader for state in states) == {ONE: 1, TWO: 1, THREE: 1}
        for state in states:
            assert set(state.in_sync) == {Member(node, epochs[node]) for node in epochs}
            assert (state.leader, state.min_in_sync) == (state.replicas[0], 2)
            assert not state.is_flushed


async def test_a_large_topic_is_stored_in_steps_that_etcd_takes(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE) as cluster:
        await cluster.topics.create(ORDERS, NewTopic(name="orders", partitions=500))
        assert cluster.store.largest <= 128
        assert Counter(s.leader for s in cluster.states("orders")) == {
            ONE: 167,
            TWO: 167,
            THREE: 166,
        }
        await cluster.topics.create_partitions(AlterableTopic("orders"), 900, is_ordered=False)
        assert cluster.store.largest <= 128
        assert Counter(s.leader for s in cluster.states("orders")) == dict.fromkeys((1, 2, 3), 300)
        assert "/topic-writers/orders" not in await cluster.left("orders")
        await cluster.topics.delete(DeletableTopic("orders"))
        assert await cluster.left("orders") == []


async def test_what_a_failed_creation_stored_is_taken_back(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE) as cluster:

        def fail(count: int) -> None:
            if count == 4:
                raise MetadataUnavailable("away")

        cluster.store.before = fail
        with pytest.raises(MetadataUnavailable):
            await cluster.topics.create(ORDERS, NewTopic(name="orders", partitions=500))
        assert await cluster.left("orders") == []
        await cluster.topics.create(ORDERS, NewTopic(name="orders", partitions=200))
        assert len(cluster.states("orders")) == 200


async def test_of_two_who_make_a_topic_at_once_one_does_it_whole(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE) as cluster:
        other = NewTopic(name="orders", partitions=300, replication_factor=2)

        async def interfere() -> None:
            cluster.store.before = None
            await cluster.topics.create(ORDERS, other)

        cluster.store.before = lambda count: interfere() if count == 3 else None
        with pytest.raises(TopicExists):
            await cluster.topics.create(ORDERS, NewTopic(name="orders", partitions=500))
        assert [len(s.replicas) for s in cluster.states("orders")] == [2] * 300
        assert "/topic-writers/orders" not in await cluster.left("orders")


async def test_a_broker_that_restarts_meanwhile_begins_under_its_new_epoch(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE) as cluster:

        async def restart() -> None:
            cluster.store.before = None
            await cluster.join(TWO)

        cluster.store.before = lambda count: restart() if count == 1 else None
        await cluster.topics.create(ORDERS, NewTopic(name="orders", partitions=3))
        epochs = cluster.follower.image.admitted()
        for state in cluster.states("orders"):
            assert set(state.in_sync) == {Member(node, epochs[node]) for node in epochs}


async def test_a_topic_that_is_deleted_does_not_grow(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE) as cluster:
        await cluster.topics.create(ORDERS, NewTopic(name="orders", partitions=1))

        async def delete() -> None:
            cluster.store.before = None
            await cluster.topics.delete(DeletableTopic("orders"))

        at = cluster.store.count + 3
        cluster.store.before = lambda count: delete() if count == at else None
        with pytest.raises(Conflict, match="orders"):
            await cluster.topics.create_partitions(AlterableTopic("orders"), 400)
        assert await cluster.left("orders") == []


async def test_more_replicas_than_brokers_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO) as cluster:
        for new in (NewTopic(name="orders", replication_factor=3), NewTopic(name="orders")):
            with pytest.raises(InvalidReplicationFactor, match="3 is outside 1 to 2"):
                await cluster.topics.create(ORDERS, new)
        internal = own_state("__queue_state")
        with pytest.raises(TooFewBrokers, match=r"default\.replication\.factor is 3, and 2"):
            await cluster.topics.ensure_internal(internal, partitions=4, config={})
        await cluster.join(THREE)
        await cluster.topics.ensure_internal(internal, partitions=4, config={})
        assert {len(state.in_sync) for state in cluster.states("__queue_state")} == {3}


async def test_a_broker_that_is_down_counts_and_is_not_in_sync(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE) as cluster:
        await cluster.die(ONE)
        await cluster.topics.create(ORDERS, NewTopic(name="orders", partitions=6))
        for state in cluster.states("orders"):
            assert set(state.replicas) == {ONE, TWO, THREE}
            assert {member.node for member in state.in_sync} == {TWO, THREE}
            assert state.leader in (TWO, THREE)


async def test_a_broker_that_is_about_to_leave_gets_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE) as cluster:
        record = msgspec.structs.replace(
            cluster.follower.image.nodes[THREE].record, is_draining=True
        )
        await cluster.store.put(*keys.node_entry(THREE, record))
        await cluster.seen()
        new = NewTopic(name="orders", partitions=6, replication_factor=2)
        await cluster.topics.create(ORDERS, new)
        assert all(THREE not in state.replicas for state in cluster.states("orders"))


@pytest.mark.parametrize("is_down", [False, True])
async def test_a_cordoned_broker_gets_nothing_new(tmp_path: Path, is_down: bool) -> None:
    async with opened(tmp_path, ONE, TWO, THREE) as cluster:
        await cluster.join(FOUR, is_cordoned=True)
        if is_down:
            await cluster.die(FOUR)
        await cluster.topics.create(ORDERS, NewTopic(name="orders", partitions=8))
        await cluster.topics.create_partitions(AlterableTopic("orders"), 16)
        await cluster.topics.ensure_internal(own_state("__queue_state"), partitions=8, config={})
        for topic in ("orders", "__queue_state"):
            assert all(set(s.replicas) == {ONE, TWO, THREE} for s in cluster.states(topic))
        new = NewTopic(name="more", replication_factor=4)
        with pytest.raises(
            InvalidReplicationFactor, match=r"4 is outside 1 to 3, .* \(cordoned: 4\)"
        ):
            await cluster.topics.create(CreatableTopic("more"), new)
        given = NewTopic(name="more", assignments={0: [1, 4]})
        with pytest.raises(InvalidReplicaAssignment, match="broker 4 is cordoned"):
            await cluster.topics.create(CreatableTopic("more"), given)


async def test_a_broker_is_cordoned_and_opened_again_while_it_runs(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE, data__dir=str(tmp_path)) as cluster:
        right = ConfigurableCluster("kafka-cluster")
        two = NewTopic(name="orders", partitions=6, replication_factor=2)
        await cluster.configs.alter(right, "3", [changed("cordoned.log.dirs", "*")])
        await cluster.topics.create(ORDERS, two)
        assert all(set(s.replicas) == {ONE, TWO} for s in cluster.states("orders"))
        # What it has it keeps, and companions stay with their owners.
        await cluster.configs.alter(right, "3", [changed("cordoned.log.dirs", "")])
        await cluster.configs.alter(right, "1", [changed("cordoned.log.dirs", str(tmp_path))])
        await cluster.topics.create(CreatableTopic("later"), two)
        assert all(set(s.replicas) == {TWO, THREE} for s in cluster.states("later"))
        companion = own_state("__queue_state." + cluster.topics.find("orders").id.hex)
        await cluster.topics.ensure_companion(companion, cluster.topics.find("orders"), config={})
        assert [s.replicas for s in cluster.states(companion)] == [
            s.replicas for s in cluster.states("orders")
        ]
        described = cluster.configs.describe(InspectableCluster("kafka-cluster"), "1")
        (entry,) = (each for each in described if each.name == "cordoned.log.dirs")
        assert (entry.value, entry.source) == (str(tmp_path), ConfigSource.DYNAMIC_BROKER)
        assert not entry.read_only


async def test_what_cordoned_may_say(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE, data__dir=str(tmp_path)) as cluster:
        right = ConfigurableCluster("kafka-cluster")
        for broker, value, said in (
            ("1", "/elsewhere", "'/elsewhere' is neither"),
            ("2", str(tmp_path), "only the broker itself knows"),
            ("", "*", "not of all"),
        ):
            with pytest.raises(InvalidConfig, match=said):
                await cluster.configs.alter(right, broker, [changed("cordoned.log.dirs", value)])
    with pytest.raises(InvalidConfig, match="'/elsewhere' is neither"):
        broker_config({"cordoned.log.dirs": "/elsewhere"})


async def test_a_cordoned_node_of_one_takes_no_topics(tmp_path: Path) -> None:
    async with opened(tmp_path, cordoned__log__dirs="*") as cluster:
        with pytest.raises(InvalidReplicationFactor, match=r"cordoned: 1"):
            await cluster.topics.create(ORDERS, NewTopic(name="orders", replication_factor=1))
        right = ConfigurableCluster("kafka-cluster")
        await cluster.configs.alter(right, "1", [changed("cordoned.log.dirs", "")])
        await cluster.topics.create(ORDERS, NewTopic(name="orders", replication_factor=1))


async def test_replicas_come_into_different_racks(tmp_path: Path) -> None:
    async with opened(tmp_path) as cluster:
        for node, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b")):
            await cluster.join(NodeId(node), rack)
        new = NewTopic(name="orders", partitions=8, replication_factor=2)
        await cluster.topics.create(ORDERS, new)
        for state in cluster.states("orders"):
            assert {node <= TWO for node in state.replicas} == {True, False}


async def test_assignments_of_the_client(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE) as cluster:
        given = NewTopic(name="orders", assignments={0: [3, 1], 1: [2, 3]})
        await cluster.topics.create(ORDERS, given)
        assert [s.replicas for s in cluster.states("orders")] == [(3, 1), (2, 3)]
        await cluster.topics.create_partitions(
            AlterableTopic("orders"), 3, assignments=[[1, 2]], is_ordered=False
        )
        assert cluster.states("orders")[2].leader == ONE
        await cluster.die(TWO)
        for assignments, said in (
            ({0: [1, 2], 1: [3]}, "must have the same number"),
            ({0: [1, 1]}, "named twice"),
            ({0: [9]}, "9 is no known broker"),
            ({0: [2]}, "are down"),
        ):
            new = NewTopic(name="other", assignments=assignments)
            with pytest.raises(InvalidReplicaAssignment, match=said):
                await cluster.topics.create(CreatableTopic("other"), new)
        new = NewTopic(name="other", assignments={0: [2, 1]})
        await cluster.topics.create(CreatableTopic("other"), new)
        assert cluster.states("other")[0].leader == ONE


async def test_each_broker_has_room_for_so_many_partitions(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE, max__partitions__per__broker="10") as cluster:
        await cluster.topics.create(ORDERS, NewTopic(name="orders", partitions=6))
        with pytest.raises(PolicyViolation, match=r"max\.partitions\.per\.broker \(10\)"):
            await cluster.topics.create_partitions(AlterableTopic("orders"), 12)
        new = NewTopic(name="thin", partitions=12, replication_factor=1)
        await cluster.topics.create(CreatableTopic("thin"), new)


async def test_partitions_follow_the_settings_of_their_topic(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE) as cluster:
        config = {"fsync.policy": "always"}
        await cluster.topics.create(ORDERS, NewTopic(name="orders", partitions=300, config=config))
        assert all(state.is_flushed for state in cluster.states("orders"))
        first = cluster.states("orders")[0]
        alone = msgspec.structs.replace(
            first, in_sync=first.in_sync[:1], eligible=first.in_sync[1:]
        )
        await cluster.store.put(*keys.partition_entry("orders", 0, alone))
        await cluster.seen()

        name = ConfigurableTopic("orders")
        lower = changed("min.insync.replicas", "1")
        await cluster.topics.alter_config(name, [lower])
        assert all(s.min_in_sync == 1 for s in cluster.states("orders"))
        assert cluster.states("orders")[0].eligible == (), "commits go on without them"
        assert cluster.store.largest <= 128

        await cluster.topics.alter_config(name, [changed("fsync.policy", "never")])
        assert not any(state.is_flushed for state in cluster.states("orders"))
        await cluster.topics.alter_config(name, [changed("fsync.policy", "always")])
        assert not any(s.is_flushed for s in cluster.states("orders")), "older messages are not"
        await cluster.topics.replace_config(name, {})
        assert all(s.min_in_sync == 2 for s in cluster.states("orders"))


async def test_settings_and_a_partition_that_changes_meanwhile(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE) as cluster:
        await cluster.topics.create(ORDERS, NewTopic(name="orders", partitions=2))
        elected = msgspec.structs.replace(cluster.states("orders")[1], leader_epoch=9)

        async def elect() -> None:
            cluster.store.before = None
            await cluster.store.put(*keys.partition_entry("orders", 1, elected))

        at = cluster.store.count + 1
        cluster.store.before = lambda count: elect() if count == at else None
        change = changed("min.insync.replicas", "3")
        await cluster.topics.alter_config(ConfigurableTopic("orders"), [change])
        states = cluster.states("orders")
        assert [(s.min_in_sync, s.leader_epoch) for s in states] == [(3, 0), (3, 9)]


COMMITS = {"fsync.policy": "always", "min.insync.replicas": "1"}


async def with_companions(cluster: Cluster, partitions: int) -> list[str]:
    owner = cluster.topics.find("orders")
    names = [companion_of(kind, owner.id) for kind in KINDS]
    for name in names:
        # What is said there of commits counts for nothing.
        config = {"min.insync.replicas": "3"}
        await cluster.topics.ensure_companion(own_state(name), owner, config=config)
    assert [len(cluster.states(name)) for name in names] == [partitions] * 2
    return names


def said(cluster: Cluster, *topics: str) -> set[tuple[int, bool]]:
    states = [state for topic in topics for state in cluster.states(topic)]
    return {(state.min_in_sync, state.is_flushed) for state in states}


async def test_companions_commit_as_the_topic_that_they_belong_to(tmp_path: Path) -> None:
    async with opened(tmp_path, ONE, TWO, THREE) as cluster:
        new = NewTopic(name="orders", partitions=130, config=COMMITS)
        await cluster.topics.create(ORDERS, new)
        companions = await with_companions(cluster, 130)
        assert said(cluster, *companions) == {(1, True)}
        name = ConfigurableTopic("orders")
        await cluster.topics.alter_config(name, [changed("min.insync.replicas", "3")])
        assert said(cluster, "orders", *companions) == {(3, True)}
        await cluster.topics.create_partitions(AlterableTopic("orders"), 140, is_ordered=False)
        await with_companions(cluster, 140)
        assert said(cluster, "orders", *companions) == {(3, True)}
        await cluster.topics.replace_config(name, {})
        assert said(cluster, "orders", *companions) == {(2, False)}
        assert cluster.store.largest <= 128
        for companion in companions:
            # As the controller sees to it when defaults change.
            view = cluster.topics.find(companion)
            assert cluster.topics.commits_of(view) == CommitSettings(2, is_flushed=False)
            with pytest.raises(PolicyViolation, match="belongs to"):
                await cluster.topics.alter_config(
                    ConfigurableTopic(companion), [changed("min.insync.replicas", "1")]
                )


@pytest.mark.parametrize("is_grown", [False, True])
@pytest.mark.parametrize("is_made_first", [False, True])
async def test_a_companion_that_is_made_while_its_topic_changes(
    tmp_path: Path, is_grown: bool, is_made_first: bool
) -> None:
    """It never counts as safer than it is."""
    async with opened(tmp_path, ONE, TWO, THREE) as cluster:
        await cluster.topics.create(ORDERS, NewTopic(name="orders", partitions=2, config=COMMITS))
        if is_grown:
            await with_companions(cluster, 2)
            await cluster.topics.create_partitions(AlterableTopic("orders"), 4)
        partitions = 4 if is_grown else 2

        async def make() -> None:
            with contextlib.suppress(Conflict):
                await with_companions(cluster, partitions)

        async def change() -> None:
            await cluster.topics.replace_config(ConfigurableTopic("orders"), {})

        first, second = (make, change) if is_made_first else (change, make)

        async def between() -> None:
            cluster.store.before = None
            await first()

        at = cluster.store.count + 1
        cluster.store.before = lambda count: between() if count == at else None
        await second()
        companions = await with_companions(cluster, partitions)
        assert said(cluster, "orders", *companions) == {(2, False)}


def test_what_holds_in_every_cluster_is_a_default_there() -> None:
    config = broker_config({"cluster": "etcd://127.0.0.1:2379"})
    nothing = BrokerOverrides({}, {})
    of_topic = {entry.name: entry for entry in topic_entries({}, nothing, config)}
    of_broker = {entry.name: entry for entry in broker_entries(nothing, config, "")}
    for entry, value in (
        (of_topic["min.insync.replicas"], "2"),
        (of_broker["topic.min.insync.replicas"], "2"),
        (of_broker["default.replication.factor"], "3"),
    ):
        assert (entry.value, entry.source) == (value, ConfigSource.DEFAULT)
