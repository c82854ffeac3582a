"""The controller: who leads after a death, in transactions that a rival cannot spoil."""

import asyncio
from collections.abc import Iterator
from typing import Any, cast
from uuid import UUID

import pytest

from goqueue.broker.controller import acting
from goqueue.broker.controller.acting import Acting, Deposed
from goqueue.broker.controller.viewing import companions
from goqueue.metadata.in_flight import IN_FLIGHT_MAX
from goqueue.metadata.store import Compare, MetadataStore, Put, TxnResult
from goqueue.model.companions import DELAYED, companion_of
from goqueue.model.elections import ElectionAnswer, ElectionKind
from goqueue.model.names import NO_LEADER, NodeId, topic_partition
from goqueue.model.replication import Member, PartitionState
from goqueue.state import metadata_keys as keys
from goqueue.state.controller.commit_settings import CommitSettings
from goqueue.state.controller.elections import LogEnd
from goqueue.state.controller.planning import ChangePartition
from goqueue.state.metadata_image import MetadataImage
from tests.unit.broker.cluster.brokers import TOPIC, TOPIC_ID, Brokers, member_of, with_brokers


@with_brokers
async def test_the_death_of_a_broker_moves_what_it_led(brokers: Brokers) -> None:
    one, two, three = await brokers.start(1, 2, 3)
    members = [member_of(broker) for broker in (one, two, three)]
    # More than one transaction takes.
    count = acting.COMPARISONS_MAX + 30
    await brokers.make_topic([(2, 3, 1)] * count, members)
    await two.kill()
    await one.until(lambda image: all(p.leader == 3 for p in image.topics[TOPIC].partitions))
    for view in one.image.topics[TOPIC].partitions:
        assert view.leader_epoch == 1
        assert set(view.isr) == {1, 3}


@with_brokers
async def test_companions_go_with_their_partitions(brokers: Brokers) -> None:
    one, two, three = await brokers.start(1, 2, 3)
    members = [member_of(broker) for broker in (one, two, three)]
    companion = companion_of(DELAYED, TOPIC_ID)
    replicas: list[tuple[int, ...]] = [(2, 1, 3)] * 2
    await brokers.make_topic(replicas, members)
    # The next in line lacks something of these.
    await brokers.make_topic(replicas, members[1:], name=companion, topic_id=UUID(int=8))
    family = companions(one.image, [topic_partition(TOPIC, 1)])
    assert family == {topic_partition(companion, 1): topic_partition(TOPIC, 1)}
    assert family == companions(one.image, family)
    await two.kill()

    def leaders(image: MetadataImage) -> set[int]:
        return {
            part.leader for name in (TOPIC, companion) for part in image.topics[name].partitions
        }

    await one.until(lambda image: leaders(image) == {3})
    assert [part.leader_epoch for part in one.image.topics[companion].partitions] == [1, 1]


@with_brokers
async def test_the_controller_itself_dies(brokers: Brokers) -> None:
    one, two, three = await brokers.start(1, 2, 3)
    members = [member_of(broker) for broker in (one, two, three)]
    await brokers.make_topic([(1, 2, 3)], members)
    assert one.cluster.controller.is_active
    await one.kill()
    await two.until(lambda image: image.topics[TOPIC].partitions[0].leader == 2)
    await three.until(lambda image: image.controller_id in (2, 3))


@with_brokers
async def test_one_that_changed_meanwhile_holds_up_no_other(brokers: Brokers) -> None:
    (one,) = await brokers.start(1)
    await brokers.make_topic([(1,)] * 5, [member_of(one)])
    held = one.image.controller.revision
    changes = [
        ChangePartition(
            topic_partition(TOPIC, index),
            PartitionState(leader=NodeId(1), leader_epoch=9, replicas=(NodeId(1),), in_sync=()),
            one.partition(index).revision - (index == 3),
        )
        for index in range(5)
    ]
    await one.cluster.controller.stop()
    assert await Acting(brokers.store, held).change(changes) == {topic_partition(TOPIC, 3)}
    await one.follower.applied((await brokers.store.get("/")).revision)
    assert [p.leader_epoch for p in one.image.topics[TOPIC].partitions] == [9, 9, 9, 0, 9]


@with_brokers
async def test_many_changes_share_the_way_and_leaders_go_first(brokers: Brokers) -> None:
    one, two = await brokers.start(1, 2)
    count = 20 * acting.COMPARISONS_MAX
    await brokers.make_topic([(1,)] * count, [member_of(one)])
    held = one.image.controller.revision
    state = PartitionState(leader=NodeId(1), leader_epoch=9, replicas=(NodeId(1),), in_sync=())
    # Every third gets another leader.
    changes = [
        ChangePartition(
            topic_partition(TOPIC, index),
            state,
            one.partition(index).revision,
            (member_of(two),) if index % 3 == 0 else (),
        )
        for index in range(count)
    ]
    await one.cluster.controller.stop()
    before = (await brokers.store.get("/")).revision
    store = SlowStore(brokers.store)
    acting_now = Acting(cast(MetadataStore, store), held)
    assert await acting_now.change(changes) == set()
    assert store.most_under_way == IN_FLIGHT_MAX
    await one.follower.applied(acting_now.revision)
    written = [view.revision for view in one.image.topics[TOPIC].partitions]
    # Those that share a transaction with the last of the leaders are as early as they.
    assert all(revision > before for revision in written)
    assert max(written[::3]) <= min(written[1::3] + written[2::3])


class SlowStore:
    """Counts transactions that wait at the same time."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._under_way = 0
        self.most_under_way = 0

    async def transact(self, *request: Any) -> TxnResult:
        self._under_way += 1
        self.most_under_way = max(self.most_under_way, self._under_way)
        try:
            await asyncio.sleep(0)
            return await self._store.transact(*request)
        finally:
            self._under_way -= 1


@with_brokers
async def test_partitions_follow_a_default_that_changed(brokers: Brokers) -> None:
    one, two, three = await brokers.start(1, 2, 3)
    members = [member_of(broker) for broker in (one, two, three)]
    await brokers.make_topic([(1, 2, 3)] * 3, members)
    one.commits = CommitSettings(1, is_flushed=False)
    await brokers.store.put(*keys.broker_config_entry(None, {"topic.min.insync.replicas": "1"}))
    await two.until(
        lambda image: all(p.state.min_in_sync == 1 for p in image.topics[TOPIC].partitions)
    )


@with_brokers
async def test_a_broker_that_restarts_meanwhile_is_not_relied_on(brokers: Brokers) -> None:
    (one,) = await brokers.start(1)
    await brokers.make_topic([(1,)] * 4, [member_of(one)])
    await one.cluster.controller.stop()
    before = Member(NodeId(1), member_of(one).broker_epoch - 1)
    changes = [
        ChangePartition(
            topic_partition(TOPIC, index),
            PartitionState(leader=NodeId(1), leader_epoch=9, replicas=(NodeId(1),), in_sync=()),
            one.partition(index).revision,
            (before,) if index < 2 else (),
        )
        for index in range(4)
    ]
    revision = (await brokers.store.get("/")).revision
    refused = await Acting(brokers.store, one.image.controller.revision).change(changes)
    assert refused == {topic_partition(TOPIC, 0), topic_partition(TOPIC, 1)}
    assert (await brokers.store.get("/")).revision == revision + 1


@with_brokers
async def test_who_was_deposed_changes_nothing(brokers: Brokers) -> None:
    (one,) = await brokers.start(1)
    await brokers.make_topic([(1,)], [member_of(one)])
    await one.cluster.controller.stop()
    held = one.image.controller.revision
    await brokers.store.put(*keys.controller_entry(NodeId(2)))
    change = ChangePartition(
        topic_partition(TOPIC, 0), one.partition().state, one.partition().revision
    )
    with pytest.raises(Deposed):
        await Acting(brokers.store, held).change([change])


@with_brokers
async def test_a_rival_in_office_is_left_alone_until_it_is_gone(brokers: Brokers) -> None:
    (one,) = await brokers.start(1)
    held = one.image.controller.revision
    done = await brokers.store.transact(
        [Compare.unchanged(keys.CONTROLLER_KEY, held)], [Put(*keys.controller_entry(NodeId(9)))]
    )
    await one.follower.applied(done.revision)
    assert not one.cluster.controller.is_active
    with pytest.raises(Deposed, match="the controller is node 9"):
        await one.cluster.controller.elect([], ElectionKind.PREFERRED)
    await brokers.store.delete(keys.CONTROLLER_KEY)
    await one.until(lambda image: one.cluster.controller.is_active)


@with_brokers
async def test_elections_that_are_asked_for(brokers: Brokers) -> None:
    one, two = await brokers.start(1, 2)
    await brokers.make_topic([(1, 2), (2, 1)], [member_of(one), member_of(two)])
    await two.stop()
    (two,) = await brokers.start(2)
    state = one.partition(1).state
    assert state.leader == 1
    # Replication lets it catch up.
    caught_up = PartitionState(
        leader=NodeId(1),
        leader_epoch=state.leader_epoch,
        replicas=state.replicas,
        in_sync=(member_of(one), member_of(two)),
    )
    await one.follower.applied(await brokers.put_partition(1, caught_up))
    zero, first, none = (
        topic_partition(TOPIC, 0),
        topic_partition(TOPIC, 1),
        topic_partition("no", 0),
    )
    assert await one.cluster.controller.elect([zero, first, none], ElectionKind.PREFERRED) == {
        zero: ElectionAnswer.NOT_NEEDED,
        first: ElectionAnswer.ELECTED,
        none: ElectionAnswer.UNKNOWN_PARTITION,
    }
    assert one.partition(1).leader == 2
    assert one.partition(1).leader_epoch == state.leader_epoch + 1


class LogInDoubt:
    """A replica that stands by: how far its log goes, and the epoch that it has accepted."""

    name = topic_partition(TOPIC, 0)
    offline_reason: str | None = None

    def __init__(self, last_epoch: int, end_offset: int) -> None:
        self.replica_end = LogEnd(last_epoch, end_offset)
        self.leader_epoch = 3


class LogsInDoubt:
    def __init__(self, log: LogInDoubt) -> None:
        self._log = log

    def __iter__(self) -> Iterator[LogInDoubt]:
        return iter((self._log,))

    def get(self, topic: str, index: int) -> LogInDoubt | None:
        return self._log if (topic, index) == self._log.name else None


@with_brokers
async def test_where_all_lost_something_the_longest_log_leads(brokers: Brokers) -> None:
    one, two = await brokers.start(1, 2)
    logs = {one: LogInDoubt(3, 50), two: LogInDoubt(4, 10)}
    for broker, log in logs.items():
        broker.cluster.tell_log_ends(LogsInDoubt(log))  # type: ignore[arg-type]
    doubtful = PartitionState(
        leader=NO_LEADER,
        leader_epoch=4,
        replicas=(NodeId(1), NodeId(2)),
        in_sync=(),
        doubtful=(NodeId(1), NodeId(2)),
        min_in_sync=2,
    )
    await brokers.make_topic([(1, 2)], [member_of(one), member_of(two)])
    await brokers.put_partition(0, doubtful)
    logs[one].leader_epoch = 4
    while not (await brokers.store.get_prefix(keys.LOG_ENDS_PREFIX)).kvs:
        await asyncio.sleep(0.005)
    # The other may still copy from an older leader: nobody decides without it.
    assert one.partition().leader == NO_LEADER
    logs[two].leader_epoch = 4
    await one.until(lambda image: image.topics[TOPIC].partitions[0].leader == 2)
    assert one.partition().state.in_sync == (member_of(two),)
    assert one.partition().leader_epoch == 5
