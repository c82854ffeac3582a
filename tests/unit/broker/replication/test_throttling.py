"""Followers that catch up are held to a rate; those in sync are not."""

from goqueue.broker.replication.throttling import Throttle
from goqueue.model.replication_config import FOLLOWER_RATE, LEADER_RATE, UNLIMITED
from goqueue.state import metadata_keys as keys
from tests.unit.broker.replication.nodes import Nodes, with_nodes

# Two fit into what is fetched of a partition at once.
LARGE = b"x" * 400_000


def test_a_rate_is_kept_on_average() -> None:
    now_s, rate = 0.0, 100
    throttle = Throttle(lambda: rate, lambda: now_s)
    now_s = 0.5
    assert not throttle.is_exceeded
    # One answer may go beyond, and is paid back.
    throttle.note(250)
    assert throttle.is_exceeded
    now_s = 2.4
    assert throttle.is_exceeded
    now_s = 2.6
    assert not throttle.is_exceeded
    # What nobody used is not kept for long.
    now_s = 1_000.0
    assert not throttle.is_exceeded
    throttle.note(101)
    assert throttle.is_exceeded
    rate = UNLIMITED
    assert not throttle.is_exceeded


async def hold_back(nodes: Nodes, rate: str, config: dict[str, str]) -> None:
    async def set_rates(**rates: str) -> None:
        await nodes.store.put(*keys.broker_config_entry(None, rates))

    await nodes.start(1, 2, 3)
    await nodes.make_topic(config=config)
    await nodes.until_in_sync(1, 2, 3)
    await nodes.die(3)
    await nodes.until_in_sync(1, 2)
    leader = nodes.leader()
    assert leader is not None
    for _ in range(5):
        await leader.produce(LARGE)
    await set_rates(**{rate: "1"})
    await nodes.start(3)
    three = nodes.running[3]
    await nodes.until(lambda: three.replica().log_end_offset == 2)
    # Others are in sync, and as fast as ever.
    for _ in range(3):
        await leader.produce(LARGE)
    assert three.replica().log_end_offset == 2
    await set_rates()
    await nodes.until_in_sync(1, 2, 3)
    assert three.replica().log_end_offset == 8


@with_nodes
async def test_a_leader_holds_back_who_catches_up(nodes: Nodes) -> None:
    await hold_back(nodes, LEADER_RATE, {"leader.replication.throttled.replicas": "*"})


@with_nodes
async def test_a_follower_holds_itself_back_while_it_catches_up(nodes: Nodes) -> None:
    await hold_back(nodes, FOLLOWER_RATE, {"follower.replication.throttled.replicas": "0:3"})
