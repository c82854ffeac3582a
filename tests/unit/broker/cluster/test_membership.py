"""Brokers register, are admitted, come back as others than they were, and leave."""

import asyncio
from pathlib import Path

import pytest

from goqueue.broker.membership import membership as membership_module
from goqueue.broker.membership.identity_file import IdentityFile
from goqueue.broker.membership.membership import NodeIdInUse
from goqueue.model.errors import DataDirectoryError
from goqueue.model.membership import FEATURE_LEVEL
from goqueue.model.names import NodeId
from goqueue.state import metadata_keys as keys
from goqueue.storage.disk import Disk
from tests.unit.broker.cluster.brokers import Brokers, member_of, with_brokers


@with_brokers
async def test_the_first_broker_admits_itself_and_the_others(brokers: Brokers) -> None:
    one, two, three = await brokers.start(1, 2, 3)
    assert one.cluster.controller.is_active
    assert not two.cluster.controller.is_active
    epochs = {member_of(broker).broker_epoch for broker in (one, two, three)}
    assert epochs == set(three.image.admitted().values())
    assert len(epochs) == 3


@with_brokers
async def test_a_broker_that_restarts_keeps_its_places_under_a_new_epoch(brokers: Brokers) -> None:
    one, two = await brokers.start(1, 2)
    before = member_of(two)
    await brokers.make_topic([(1, 2)], [member_of(one), before])
    await two.kill()
    (again,) = await brokers.start(2)
    after = member_of(again)
    assert after.broker_epoch > before.broker_epoch
    # It left when it died; nothing was lost, but it has to catch up.
    assert [member.node for member in again.partition().state.in_sync] == [1]
    assert after not in again.partition().state.in_sync


@with_brokers
async def test_all_killed_at_once_come_back_with_what_they_had(brokers: Brokers) -> None:
    one, two = await brokers.start(1, 2)
    await brokers.make_topic([(1, 2)], [member_of(one), member_of(two)])
    # Without a controller nobody takes them out.
    await one.cluster.controller.stop()
    await two.cluster.controller.stop()
    await one.kill()
    await two.kill()
    one = brokers.new(1)
    two = brokers.new(2)
    await asyncio.gather(one.start(), two.start())
    await one.until(lambda image: image.topics["orders"].partitions[0].leader != -1)
    state = one.partition().state
    assert state.leader_epoch > 0
    assert member_of(brokers.running[-2 if state.leader == 1 else -1]) in state.in_sync


@with_brokers
async def test_a_broker_that_lost_something_leaves_the_in_sync_sets_first(brokers: Brokers) -> None:
    one, two = await brokers.start(1, 2)
    await brokers.make_topic([(1, 2), (2, 1)], [member_of(one), member_of(two)])
    await two.kill()
    two = brokers.new(2)
    await two.start(has_lost=True)
    for index in (0, 1):
        state = two.partition(index).state
        assert all(member.node == 1 for member in (*state.in_sync, *state.eligible))


@with_brokers
async def test_a_session_that_ran_out_is_begun_again(brokers: Brokers) -> None:
    (one,) = await brokers.start(1)
    before = member_of(one)
    await brokers.store.revoke(one.cluster.membership.lease)
    await one.until(lambda image: one.cluster.membership.me not in (before, None))
    assert member_of(one).broker_epoch > before.broker_epoch


@with_brokers
async def test_a_cluster_that_went_on_to_a_later_release_is_not_joined_again(
    brokers: Brokers,
) -> None:
    one, two = await brokers.start(1, 2)
    await brokers.store.put(*keys.feature_level_entry(FEATURE_LEVEL + 1))
    await brokers.store.revoke(one.cluster.membership.lease)
    await two.until(lambda image: one.node_id not in image.brokers)
    later = brokers.new(3)
    with pytest.raises(DataDirectoryError, match="feature level 4, and this release knows 3"):
        await later.start()
    # The one that ran tries again and again, and has not come back.
    assert one.node_id not in two.image.brokers
    await brokers.store.put(*keys.feature_level_entry(FEATURE_LEVEL))
    await two.until(lambda image: one.node_id in image.brokers)


@with_brokers
async def test_a_second_folder_under_one_node_id_is_refused(brokers: Brokers) -> None:
    await brokers.start(1)
    second = brokers.new(1, folder="another")
    patience = pytest.MonkeyPatch()
    patience.setattr(membership_module, "_PATIENCE_LEASES", 0)
    try:
        with pytest.raises(NodeIdInUse, match=r"node id 1 is in use by the broker at 127.0.0.1:1"):
            await second.start()
    finally:
        patience.undo()
    await second.cluster.hand_over()
    assert not second.image.nodes[NodeId(1)].record.is_draining


@with_brokers
async def test_a_new_process_takes_over_from_one_whose_lease_still_runs(brokers: Brokers) -> None:
    (one,) = await brokers.start(1)
    before = member_of(one)
    await one.cluster.stop()
    await one.follower.stop()
    (again,) = await brokers.start(1)
    assert member_of(again).broker_epoch > before.broker_epoch
    await again.until(lambda image: again.cluster.controller.is_active)


@with_brokers
async def test_who_stops_hands_over_first_and_gives_the_office_away(brokers: Brokers) -> None:
    one, two, three = await brokers.start(1, 2, 3)
    members = [member_of(broker) for broker in (one, two, three)]
    await brokers.make_topic([(1, 2, 3), (2, 3, 1), (1,)], members)
    await one.stop()
    await two.until(lambda image: NodeId(1) not in image.brokers)
    assert two.partition(0).leader in (2, 3)
    assert two.partition(0).leader_epoch == 1
    assert set(two.partition(0).isr) == {2, 3}
    assert set(two.partition(1).isr) == {2, 3}
    assert two.partition(1).leader_epoch == 0
    # Nobody else has it: it waits for the broker to come back.
    await two.until(lambda image: image.topics["orders"].partitions[2].leader == -1)
    assert [m.node for m in two.partition(2).state.eligible] == [1]
    await two.until(lambda image: image.controller_id in (2, 3))
    assert not one.identity.identity.trail[1:]
    assert one.identity.identity.is_stopped


@with_brokers
async def test_who_comes_back_is_not_draining_any_more(brokers: Brokers) -> None:
    _one, two = await brokers.start(1, 2)
    await two.stop()
    (two,) = await brokers.start(2)
    assert not two.image.nodes[NodeId(2)].record.is_draining


def test_a_folder_keeps_its_node_id_and_is_not_used_when_damaged(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    file = IdentityFile.open(Disk(), path, NodeId(1))
    file.begin(has_lost=False)
    assert IdentityFile.open(Disk(), path, NodeId(1)).identity == file.identity
    with pytest.raises(DataDirectoryError, match="data directory of node 1, not of node 2"):
        IdentityFile.open(Disk(), path, NodeId(2))
    path.write_bytes(path.read_bytes().replace(b'"node_id": 1', b'"node_id": 2'))
    with pytest.raises(DataDirectoryError, match="the checksum in its first line"):
        IdentityFile.open(Disk(), path, NodeId(2))


def test_keys_of_log_ends_have_a_place_of_their_own() -> None:
    value = keys.LogEndValue(
        node=NodeId(3), broker_epoch=9, leader_epoch=2, last_epoch=1, end_offset=100
    )
    entry = keys.log_end_entry("orders", 4, value)
    assert entry.key == "/log-ends/orders/4/3"
    assert keys.parse_key(entry.key) is None
