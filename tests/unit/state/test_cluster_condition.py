"""How a cluster is doing, read from its metadata."""

from uuid import UUID

import pytest

from goqueue.model.cluster import Health, NodeStatus, Trouble
from goqueue.model.membership import NodeRecord, Registration
from goqueue.model.names import NO_LEADER, NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.state.cluster_condition import cluster_state, health, partitions_of, trouble
from goqueue.state.metadata_image import MetadataImage
from goqueue.state.metadata_keys import (
    BrokerValue,
    Entry,
    TopicValue,
    broker_config_entry,
    broker_entry,
    controller_entry,
    node_entry,
    partition_entry,
    suspicion_key,
    topic_entry,
)

ONE, TWO, THREE = (NodeId(i) for i in (1, 2, 3))
ID = UUID(int=1)
AT = 10


def node(
    node_id: NodeId,
    *,
    is_up: bool = True,
    epoch: int = AT,
    draining: bool = False,
    is_cordoned: bool = False,
) -> list[Entry]:
    said = Registration(directory=ID, trail=(ID,), is_kept=True, is_cordoned=is_cordoned)
    value = BrokerValue(host="h", kafka_port=1, http_port=2, registration=said)
    record = NodeRecord(directory=ID, incarnation=ID, broker_epoch=epoch, is_draining=draining)
    return [node_entry(node_id, record), *([broker_entry(node_id, value)] if is_up else [])]


def partition(*in_sync: NodeId, leader: NodeId = ONE) -> PartitionState:
    return PartitionState(
        leader=leader,
        leader_epoch=1,
        replicas=(ONE, TWO, THREE),
        in_sync=tuple(Member(node, AT) for node in in_sync),
        min_in_sync=2,
    )


def image(nodes: list[Entry], *states: PartitionState, controller: bool = True) -> MetadataImage:
    entries = [
        *nodes,
        topic_entry("t", TopicValue(id=ID, partitions=len(states))),
        *(partition_entry("t", index, state) for index, state in enumerate(states)),
        *([controller_entry(ONE)] if controller else []),
    ]
    return MetadataImage.load([(*entry, AT) for entry in entries], revision=AT)


def found(of: MetadataImage, failure: str | None = None) -> tuple[Health, str]:
    status, reasons = health(cluster_state(of, cluster_id="c", store_failure=failure))
    return status, "; ".join(reasons)


ALL_UP = [*node(ONE), *node(TWO), *node(THREE)]


def test_a_broker_that_could_not_take_over_yet_says_so() -> None:
    at_peace = cluster_state(
        image(ALL_UP, partition(ONE, TWO, THREE)), cluster_id="c", store_failure=None
    )
    assert health(at_peace, replaying=2) == (
        Health.DEGRADED,
        ["this broker is not ready yet to take over 2 partitions"],
    )


def test_a_healthy_cluster() -> None:
    at_peace = image(ALL_UP, partition(ONE, TWO, THREE), partition(ONE, TWO, THREE))
    state = cluster_state(at_peace, cluster_id="c", store_failure=None)
    assert [(n.node_id, n.status, n.leaders, n.replicas, n.lagging) for n in state.nodes] == [
        (1, NodeStatus.ALIVE, 2, 2, 0),
        (2, NodeStatus.ALIVE, 0, 2, 0),
        (3, NodeStatus.ALIVE, 0, 2, 0),
    ]
    assert found(at_peace) == (Health.HEALTHY, "")


@pytest.mark.parametrize(
    ("state", "wrong"),
    [
        (partition(ONE, TWO, THREE), None),
        (partition(ONE, TWO), Trouble.UNDER_REPLICATED),
        (partition(ONE), Trouble.UNDER_MIN_IN_SYNC),
        (partition(ONE, TWO, leader=NO_LEADER), Trouble.OFFLINE),
    ],
)
def test_what_is_wrong_with_a_partition(state: PartitionState, wrong: Trouble | None) -> None:
    (one,) = partitions_of(image(ALL_UP, state))
    assert trouble(one.view) is wrong


def test_a_leader_that_is_gone_counts_as_none() -> None:
    nodes = [*node(ONE, is_up=False), *node(TWO), *node(THREE)]
    (one,) = partitions_of(image(nodes, partition(ONE, TWO, THREE)))
    assert trouble(one.view) is Trouble.OFFLINE


def test_nodes_that_come_and_go() -> None:
    nodes = [*node(ONE, is_up=False), *node(TWO, epoch=3), *node(THREE, draining=True)]
    state = cluster_state(image(nodes), cluster_id="c", store_failure=None)
    assert [n.status for n in state.nodes] == [
        NodeStatus.DEAD,
        NodeStatus.JOINING,
        NodeStatus.LEAVING,
    ]


def test_cordoned_nodes() -> None:
    seen = image([*node(ONE, is_cordoned=True), *node(TWO, is_cordoned=True), *node(THREE)])
    opened = {"cordoned.log.dirs": ""}
    seen, _ = seen.apply(AT + 1, [(*broker_config_entry(TWO, opened), AT + 1)])
    state = cluster_state(seen, cluster_id="c", store_failure=None)
    assert [each.is_cordoned for each in state.nodes] == [True, False, False]


def test_a_node_that_another_finds_gone_is_suspect_while_it_is_registered() -> None:
    def status(*suspicions: str, is_up: bool = True) -> list[str]:
        entries = [*node(ONE), *node(TWO), *node(THREE, is_up=is_up)]
        entries += [Entry(key, b"") for key in suspicions]
        seen = image(entries, partition(ONE, TWO, THREE))
        state = cluster_state(seen, cluster_id="c", store_failure=None)
        return [each.status.value for each in state.nodes]

    witnessed = suspicion_key(THREE, AT, TWO)
    assert status(witnessed) == ["alive", "alive", "suspect"]
    assert status(witnessed, is_up=False) == ["alive", "alive", "dead"]
    # It has registered anew since.
    assert status(suspicion_key(THREE, AT - 1, TWO)) == ["alive", "alive", "alive"]


def test_a_suspicion_is_withdrawn() -> None:
    key = suspicion_key(THREE, AT, TWO)
    before = image([*ALL_UP, Entry(key, b"")], partition(ONE, TWO, THREE))
    assert found(before) == (Health.DEGRADED, "nodes that others cannot reach: 3")
    after, _ = before.apply(AT + 1, [(key, None, AT + 1)])
    assert found(after) == (Health.HEALTHY, "")


def test_reasons() -> None:
    nodes = [*node(ONE), *node(TWO), *node(THREE, is_up=False)]
    status, words = found(image(nodes, partition(ONE, TWO)))
    assert status is Health.DEGRADED
    assert words == "1 partitions have replicas that are not in sync; nodes that are down: 3"
    status, words = found(image(ALL_UP, partition(ONE, leader=NO_LEADER)))
    assert status is Health.UNAVAILABLE
    assert words.startswith("1 partitions have no leader; 1 partitions have too few replicas")
    status, words = found(image(ALL_UP, controller=False), failure="refused")
    assert status is Health.DEGRADED
    assert words == (
        "there is no controller: nobody elects leaders; the metadata store does not answer: refused"
    )
