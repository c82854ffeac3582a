"""A partition and what belongs to it, moved while brokers die and controllers stop half-way.

Whatever happened: once all brokers are there and copies catch up, both are where the partition was
to go, and are led by one broker.
"""

from random import Random
from uuid import UUID

from goqueue.model.membership import NodeRecord, Registration
from goqueue.model.names import NodeId, TopicPartition, topic_partition
from goqueue.model.replication import Member, PartitionState
from goqueue.state.controller.companions import following_owners
from goqueue.state.controller.elections import LogEnd
from goqueue.state.controller.moving import moves_going_on
from goqueue.state.controller.planning import (
    Admit,
    ChangePartition,
    ClusterView,
    Registered,
    Stored,
    plan,
)
from goqueue.state.replication.in_sync import joined, without
from goqueue.state.replication.moving import begun, cancelled

OWNER, COMPANION = topic_partition("t", 0), topic_partition("c", 0)
NODES = tuple(NodeId(number) for number in range(1, 6))
DIRECTORY = UUID(int=1)
SEEDS = 200
EVENTS = 60
# Of a controller whom nobody disturbs, with all copies in sync after each.
CALM_STEPS = 8


class Family:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self._revision = 100
        self._incarnations = 0
        self._brokers: dict[NodeId, Registered] = {}
        self._nodes: dict[NodeId, tuple[NodeRecord, int]] = {}
        self._stored: dict[TopicPartition, Stored] = {}
        for node in NODES:
            self.start(node)
        self._act(len(NODES))
        members = tuple(Member(node, self._brokers[node].broker_epoch) for node in NODES[:3])
        state = PartitionState(
            leader=NODES[0],
            leader_epoch=1,
            replicas=NODES[:3],
            in_sync=members,
            min_in_sync=self.chance.choice((1, 2)),
        )
        self._stored |= {OWNER: Stored(state, 1), COMPANION: Stored(state, 2)}

    # --- what happens ---------------------------------------------------------------------

    def happen(self) -> None:
        chance = self.chance
        node = chance.choice(NODES)
        match chance.randrange(8):
            case 0:
                self._move(tuple(chance.sample(NODES, chance.choice((1, 2, 3, 3)))))
            case 1:
                self._move(None)
            case 2:
                # At least two are there: what nobody has cannot be moved.
                if len(self._brokers) > 2:
                    self._brokers.pop(node, None)
            case 3:
                self.start(node)
            case 4:
                self._fall_behind(chance.choice((OWNER, COMPANION)), node)
            case 5:
                self._catch_up(chance.choice((OWNER, COMPANION)), node)
            case _:
                # A controller that is deposed after so many writes.
                self._act(chance.choice((1, 1, 2, 9)))

    def come_to_rest(self) -> None:
        for node in NODES:
            self.start(node)
        for _ in range(CALM_STEPS):
            self._act(99)
            for partition in self._stored:
                for node in NODES:
                    self._catch_up(partition, node)

    def start(self, node: NodeId) -> None:
        if node in self._brokers:
            return
        self._incarnations += 1
        known = (self._nodes[node][0].incarnation,) if node in self._nodes else ()
        trail = (*known, UUID(int=1_000 + self._incarnations))
        is_kept = self.chance.random() < 0.8
        registration = Registration(directory=DIRECTORY, trail=trail, is_kept=is_kept)
        self._revision += 1
        self._brokers[node] = Registered(registration, self._revision)

    def _move(self, target: tuple[NodeId, ...] | None) -> None:
        state = self.state(OWNER)
        present, candidates = self._present(), self._view().admitted()
        if target is None:
            moved = cancelled(state, present, candidates)
        else:
            moved = begun(state, target, present, candidates)
        if moved is not None:
            self._put(OWNER, moved)

    def _fall_behind(self, partition: TopicPartition, node: NodeId) -> None:
        state = self.state(partition)
        if state.has_leader and node != state.leader:
            self._put(partition, without(state, {node}))

    def _catch_up(self, partition: TopicPartition, node: NodeId) -> None:
        """Proposed by a leader that is there, of one that is admitted."""
        state, admitted = self.state(partition), self._view().admitted()
        leader = next((m for m in state.in_sync if m.node == state.leader), None)
        is_led = leader is not None and admitted.get(leader.node) == leader.broker_epoch
        if is_led and node in state.replicas and node in admitted:
            member = Member(node, admitted[node])
            if member not in state.in_sync:
                self._put(partition, joined(state, member))

    def _act(self, writes: int) -> None:
        """The controller: what is due of brokers and leaders, then of families."""
        for action in plan(self._view())[:writes]:
            if isinstance(action, ChangePartition):
                self._put(action.partition, action.state)
            elif isinstance(action, Admit):
                self._nodes[action.node] = (action.record, self._revision)
        view = self._view()
        changes = {change.partition: change for change in following_owners(view)}
        owners = {COMPANION: OWNER}
        changes |= {change.partition: change for change in moves_going_on(view, owners)}
        written = list(changes.values())
        self.chance.shuffle(written)
        registered = self._present()
        for change in written[:writes]:
            # As the store compares: of one that died, others are told first.
            if all(registered.get(m.node) == m.broker_epoch for m in change.relies_on):
                self._put(change.partition, change.state)

    # --- what is stored -------------------------------------------------------------------

    def state(self, partition: TopicPartition) -> PartitionState:
        return self._stored[partition].state

    def _put(self, partition: TopicPartition, state: PartitionState) -> None:
        before = self.state(partition)
        assert {member.node for member in state.in_sync} <= set(state.replicas)
        if set(before.replicas) - set(state.replicas):
            # Whoever leaves, leaves with an epoch, and enough stay that were in sync before.
            assert state.leader_epoch > before.leader_epoch
            assert len(state.in_sync) >= state.quorum
            assert set(state.in_sync) <= set(before.in_sync)
        self._revision += 1
        self._stored[partition] = Stored(state, self._revision)

    def _present(self) -> dict[NodeId, int]:
        return {node: broker.broker_epoch for node, broker in self._brokers.items()}

    def _view(self) -> ClusterView:
        # Should nobody be sure to have everything: all logs are equally long.
        ends = {Member(*each): LogEnd(1, 10) for each in self._present().items()}
        return ClusterView(
            dict(self._stored),
            dict(self._brokers),
            dict(self._nodes),
            dict.fromkeys(self._stored, ends),
            {COMPANION: OWNER},
        )


def test_families_arrive_together() -> None:
    for seed in range(SEEDS):
        family = Family(seed)
        for _ in range(EVENTS):
            family.happen()
        wanted = family.state(OWNER).wanted
        family.come_to_rest()
        owner, companion = family.state(OWNER), family.state(COMPANION)
        assert (owner.move, companion.move) == (None, None), seed
        assert owner.replicas == companion.replicas == wanted, seed
        assert owner.has_leader, seed
        assert owner.leader == companion.leader, seed
        everybody = {member.node for member in owner.in_sync}
        assert everybody == {member.node for member in companion.in_sync} == set(wanted), seed
