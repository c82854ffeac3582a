"""Where the replicas of new partitions come: as the caller says, or spread over the brokers.

A node of one is the only broker that it knows; in a cluster every node that was admitted once and
did not leave counts, also while it is down. Cordoned brokers get nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from goqueue.broker.topics.growth import check_room
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    TooFewBrokers,
)
from goqueue.model.names import NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.model.topics import NewTopic, TopicView
from goqueue.state.controller.commit_settings import CommitSettings
from goqueue.state.controller.placement import Candidate, Load, Replicas, load_of, place
from goqueue.state.membership.cordons import cordoned, is_cordoned
from goqueue.state.metadata_image import MetadataImage
from goqueue.state.metadata_keys import NO_BROKER_EPOCH


class NewPartitions(NamedTuple):
    """Partitions as they begin. `registered` are the epochs of the brokers that are in sync: one
    that restarts before they are stored does not know that it is."""

    states: Sequence[PartitionState]
    registered: Mapping[NodeId, int]


class Placing:
    """What is decided from one image."""

    def __init__(self, image: MetadataImage, config: BrokerConfig) -> None:
        self._image = image
        self._config = config
        me = NodeId(config.node_id)
        self._epochs = {me: NO_BROKER_EPOCH} if self.is_alone else image.admitted()
        if self.is_alone:
            is_closed = is_cordoned(
                image.broker_config(me), at_start=bool(config.cordoned_log_dirs)
            )
            self._cordoned = {me} if is_closed else set()
            self._candidates = [] if is_closed else [Candidate(me)]
        else:
            self._cordoned = cordoned(image)
            self._candidates = _candidates(image, self._cordoned)

    @property
    def is_alone(self) -> bool:
        return not self._image.nodes

    # --- choosing -------------------------------------------------------------------------

    def of_topic(self, new: NewTopic) -> list[Replicas]:
        if new.assignments is not None:
            if sorted(new.assignments) != list(range(len(new.assignments))) or not new.assignments:
                raise InvalidReplicaAssignment(
                    "replica assignments must name partitions 0, 1, 2, … without a gap"
                )
            self.check_partition_count(len(new.assignments))
            return self._given([new.assignments[i] for i in range(len(new.assignments))])
        count = self._config.num_partitions if new.partitions is None else new.partitions
        self.check_partition_count(count)
        factor = new.replication_factor
        factor = self._config.default_replication_factor if factor is None else factor
        if not 1 <= factor <= len(self._candidates):
            raise InvalidReplicationFactor(
                f"replication factor {factor} is outside 1 to {len(self._candidates)}, the number "
                f"of brokers{self._besides_cordoned}"
            )
        return self._spread(count, factor, Load())

    def of_internal_topic(self, count: int) -> list[Replicas]:
        """Refused for as long as there are too few brokers: with fewer copies it would stay."""
        factor = self._config.default_replication_factor
        if factor > len(self._candidates):
            raise TooFewBrokers(
                f"default.replication.factor is {factor}, and {len(self._candidates)} brokers have "
                f"joined the cluster so far{self._besides_cordoned}"
            )
        return self._spread(count, factor, Load())

    def of_growth(
        self, topic: TopicView, count: int, given: Sequence[Sequence[int]] | None
    ) -> list[Replicas]:
        """As many replicas as the topic has already."""
        if given is not None:
            if len(given) != count:
                raise InvalidReplicaAssignment(
                    f"{count} partitions are added, but {len(given)} assignments given"
                )
            return self._given(given)
        factor = len(topic.partitions[0].state.wanted)
        if factor > len(self._candidates):
            raise InvalidReplicationFactor(
                f"partitions of {topic.name!r} have {factor} replicas, and there are "
                f"{len(self._candidates)} brokers{self._besides_cordoned}"
            )
        return self._spread(count, factor, load_of(p.replicas for p in topic.partitions))

    def of_move(self, topic: TopicView, before: Replicas, given: Sequence[int]) -> Replicas:
        """Where a partition is to go. Who has it already may keep it, cordoned or not."""
        target = tuple(NodeId(node) for node in given)
        known = self._image.nodes or self._epochs
        candidates = {candidate.node for candidate in self._candidates}
        if not target or len(set(target)) != len(target):
            raise InvalidReplicaAssignment(f"replicas {list(given)} are empty or named twice")
        for node in target:
            if node not in known:
                raise InvalidReplicaAssignment(f"replica {node} is no known broker")
            if node in before:
                continue
            if node in self._cordoned:
                raise InvalidReplicaAssignment(f"broker {node} is cordoned: it gets no replicas")
            if node not in candidates:
                raise InvalidReplicaAssignment(f"broker {node} is about to leave")
        added = tuple(node for node in target if node not in before)
        if added and not topic.is_internal:
            self.check_room([added])
        return target

    @property
    def candidates(self) -> Sequence[Candidate]:
        """Who may get replicas."""
        return self._candidates

    @property
    def _besides_cordoned(self) -> str:
        names = ", ".join(map(str, sorted(self._cordoned)))
        return f" (cordoned: {names})" if names else ""

    def _spread(self, count: int, factor: int, topic: Load) -> list[Replicas]:
        if self.is_alone:
            return [(self._candidates[0].node,)] * count
        workers = self._config.workers
        if len(self._image.nodes) < workers:
            # At the first start: the first of them would get everything.
            raise TooFewBrokers(
                f"{len(self._image.nodes)} of {workers} workers have started so far; try again"
            )
        if not any(candidate.is_up for candidate in self._candidates):
            raise TooFewBrokers("no broker of the cluster is admitted at the moment")
        everything = load_of(_replicas_of(self._image.topics.values()))
        return place(self._candidates, count, factor, topic=topic, everything=everything)

    def _given(self, assignments: Sequence[Sequence[int]]) -> list[Replicas]:
        for given in assignments:
            if len(given) != len(assignments[0]):
                raise InvalidReplicaAssignment(
                    f"replicas {list(given)} are not as many as {list(assignments[0])}: all "
                    "partitions must have the same number"
                )
        return [self._checked(given) for given in assignments]

    def _checked(self, given: Sequence[int]) -> Replicas:
        replicas = tuple(NodeId(node) for node in given)
        known = {candidate.node for candidate in self._candidates}
        if not replicas or len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignment(f"replicas {list(given)} are empty or named twice")
        for node in replicas:
            if node in self._cordoned:
                raise InvalidReplicaAssignment(f"broker {node} is cordoned: it gets no replicas")
            if node not in known:
                raise InvalidReplicaAssignment(f"replica {node} is no known broker")
        if not any(node in self._epochs for node in replicas):
            raise InvalidReplicaAssignment(f"all brokers of replicas {list(given)} are down")
        return replicas

    # --- limits ---------------------------------------------------------------------------

    def check_partition_count(self, count: int) -> None:
        most = self._config.max_partitions_per_topic
        if not 1 <= count <= most:
            raise InvalidPartitions(f"partition count {count} is outside 1 to {most}")

    def room(self) -> dict[NodeId, int]:
        """How many replicas each broker can still take."""
        most = self._config.max_partitions_per_broker
        existing_on = Counter(chain.from_iterable(_replicas_of(self._counted())))
        return {each.node: most - existing_on[each.node] for each in self._candidates}

    def check_room(self, assignments: Iterable[Replicas]) -> None:
        most = self._config.max_partitions_per_broker
        added = Counter(chain.from_iterable(assignments))
        topics = self._counted()
        if self.is_alone:
            check_room(sum(len(topic.partitions) for topic in topics), added.total(), most)
            return
        existing_on = Counter(chain.from_iterable(_replicas_of(topics)))
        for node, count in added.items():
            check_room(existing_on[node], count, most)

    def _counted(self) -> list[TopicView]:
        """The broker's own topics do not count: where there is room for a topic, there is room for
        its companions."""
        return [topic for topic in self._image.topics.values() if not topic.is_internal]

    # --- as they begin --------------------------------------------------------------------

    def begin(self, assignments: Sequence[Replicas], commits: CommitSettings) -> NewPartitions:
        """Led by the first replica that is up; all that are up are in sync, for there is nothing
        that they could lack."""
        states = [self._begin(replicas, commits) for replicas in assignments]
        in_use = {member for state in states for member in state.in_sync}
        return NewPartitions(states, {} if self.is_alone else dict(in_use))

    def _begin(self, replicas: Replicas, commits: CommitSettings) -> PartitionState:
        in_sync = tuple(
            Member(node, self._epochs[node]) for node in replicas if node in self._epochs
        )
        return PartitionState(
            leader=in_sync[0].node,
            leader_epoch=0,
            replicas=replicas,
            in_sync=in_sync,
            min_in_sync=commits.min_in_sync,
            is_flushed=commits.is_flushed,
        )


def _candidates(image: MetadataImage, closed: set[NodeId]) -> list[Candidate]:
    admitted = image.admitted()
    return [
        Candidate(node, image.brokers[node].rack if node in admitted else None, node in admitted)
        for node, known in image.nodes.items()
        if not known.record.is_draining and node not in closed
    ]


def _replicas_of(topics: Iterable[TopicView]) -> Iterable[Replicas]:
    return (partition.state.replicas for topic in topics for partition in topic.partitions)
