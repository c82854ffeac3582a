"""What the controller does next: admit brokers, take the dead out, elect.

A registered broker is *admitted* once the cluster's record of its node names its broker epoch.
Until then it neither leads nor follows: first every partition must know what its logs are worth.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from goqueue.model.membership import NodeRecord, Registration
from goqueue.model.names import NodeId, TopicPartition
from goqueue.model.replication import Member, PartitionState
from goqueue.model.topics import TopicView
from goqueue.state.controller.commit_settings import CommitSettings, following
from goqueue.state.controller.elections import LogEnd, elect, in_sync_in_all
from goqueue.state.membership.identity import Continuity, continuity
from goqueue.state.replication.in_sync import continued, forgotten


class Stored(NamedTuple):
    state: PartitionState
    revision: int


class Registered(NamedTuple):
    registration: Registration
    broker_epoch: int


class Standing(NamedTuple):
    """Brokers with their epochs: those that may lead and are not about to leave, and all that are
    there."""

    candidates: Mapping[NodeId, int]
    present: Mapping[NodeId, int]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One reading of the metadata, and what brokers said when they were asked for their logs."""

    partitions: Mapping[TopicPartition, Stored]
    brokers: Mapping[NodeId, Registered]
    # With the revision of each record, since admitting compares it; 0 where there is none.
    nodes: Mapping[NodeId, tuple[NodeRecord, int]]
    log_ends: Mapping[TopicPartition, Mapping[Member, LogEnd]] = field(default_factory=dict)
    # Which partition each companion belongs to.
    owners: Mapping[TopicPartition, TopicPartition] = field(default_factory=dict)
    # What every broker must know.
    feature_level: int = 0

    def admitted(self) -> dict[NodeId, int]:
        """The broker epochs of those that may lead and follow."""
        return {
            node: broker.broker_epoch
            for node, broker in self.brokers.items()
            if node in self.nodes and self.nodes[node][0].broker_epoch == broker.broker_epoch
        }

    def leaving(self) -> set[NodeId]:
        """Those that asked for others to take over what they lead."""
        draining = [node for node, (record, _) in self.nodes.items() if record.is_draining]
        return {node for node in draining if node in self.admitted()} if draining else set()

    def standing(self) -> Standing:
        leaving = self.leaving()
        return Standing(
            {node: epoch for node, epoch in self.admitted().items() if node not in leaving},
            {node: broker.broker_epoch for node, broker in self.brokers.items()},
        )


@dataclass(frozen=True, slots=True)
class ChangePartition:
    """Set the partition if it is at `revision`, this is still the controller, and `relies_on`
    are still registered under these epochs."""

    partition: TopicPartition
    state: PartitionState
    revision: int
    relies_on: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class Admit:
    """Note the node as admitted if its record is at `revision` and the broker still registered."""

    node: NodeId
    record: NodeRecord
    revision: int


@dataclass(frozen=True, slots=True)
class AskLogEnds:
    """Nobody is sure to have everything: ask these for the last epoch and end of their logs."""

    partition: TopicPartition
    members: tuple[Member, ...]


Action = ChangePartition | Admit | AskLogEnds


def plan(view: ClusterView) -> list[Action]:
    """All that is to do now. A broker is admitted only when no partition is left to correct."""
    admitted = view.admitted()
    present = {node: broker.broker_epoch for node, broker in view.brokers.items()}
    arriving = {node: broker for node, broker in view.brokers.items() if node not in admitted}
    worth = {node: _worth(node, broker, view) for node, broker in arriving.items()}
    leaving = view.leaving()
    actions: list[Action] = []
    unsettled: set[NodeId] = set()
    states: dict[TopicPartition, PartitionState] = {}
    for partition, stored in view.partitions.items():
        state = stored.state
        for node, broker in arriving.items():
            corrected = _corrected(state, node, broker.broker_epoch, worth[node])
            if corrected != state:
                unsettled.add(node)
                state = corrected
        states[partition] = state
    in_all = in_sync_in_all(states, view.owners)
    for partition, stored in view.partitions.items():
        election = elect(
            states[partition],
            present,
            admitted,
            view.log_ends.get(partition, {}),
            leaving,
            in_all.get(view.owners.get(partition, partition), ()),
        )
        if election.ask:
            actions.append(AskLogEnds(partition, election.ask))
        if election.state is not stored.state and election.state != stored.state:
            actions.append(
                ChangePartition(partition, election.state, stored.revision, election.relies_on)
            )
    actions.extend(_admissions(view, arriving, unsettled))
    return actions


def settled(topic: TopicView, commits: CommitSettings) -> Iterator[ChangePartition]:
    """Partitions of a topic whose state does not say what its settings say."""
    for view in topic.partitions:
        state = following(view.state, commits) if view.is_known else view.state
        if state != view.state:
            yield ChangePartition(TopicPartition(topic.name, view.index), state, view.revision)


def _admissions(
    view: ClusterView, arriving: Mapping[NodeId, Registered], unsettled: set[NodeId]
) -> Iterator[Admit]:
    for node, broker in arriving.items():
        # One of an earlier release does not look at the level when it registers again.
        is_known = broker.registration.feature_level >= view.feature_level
        if node not in unsettled and is_known:
            record = NodeRecord(
                directory=broker.registration.directory,
                incarnation=broker.registration.incarnation,
                broker_epoch=broker.broker_epoch,
                is_cordoned=broker.registration.is_cordoned,
                feature_level=broker.registration.feature_level,
            )
            yield Admit(node, record, view.nodes[node][1] if node in view.nodes else 0)


def _worth(node: NodeId, broker: Registered, view: ClusterView) -> Continuity:
    known = view.nodes.get(node)
    return continuity(broker.registration, None if known is None else known[0])


def _corrected(
    state: PartitionState, node: NodeId, broker_epoch: int, worth: Continuity
) -> PartitionState:
    """The partition with what an arriving broker's logs are worth; the same where it is not in."""
    if worth is Continuity.KEPT or (worth is Continuity.ON_DISK and state.is_flushed):
        return continued(state, Member(node, broker_epoch))
    return forgotten(state, node)
