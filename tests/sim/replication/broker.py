"""One broker from its start to its end: the edges around the pure machines, simulated.

It does what a broker's edges do: keeps an image of the metadata from a watch that lags, registers,
runs the machines of its partitions, sends what they say, and is controller when it can be.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from goqueue.metadata.store import Compare, EventKind, Get, KeyValue, LeaseId, Op, Put
from goqueue.model.names import NodeId
from goqueue.model.replication import Member, PartitionState
from goqueue.state.membership.identity import admitted, begun, harmed, registration
from goqueue.state.replication.following import (
    Append,
    Diverging,
    FetchAnswer,
    FetchQuestion,
    Following,
    Halt,
    Records,
    StartAt,
    Truncate,
    diverging,
)
from goqueue.state.replication.in_sync import (
    can_resign,
    can_stand_aside,
    resigned,
    stood_aside,
)
from goqueue.state.replication.leading import FetchVerdict, Leading, Proposal
from tests.sim.replication.checker import Violation
from tests.sim.replication.controlling import Controlling
from tests.sim.replication.disk import Record, SimLog
from tests.sim.replication.keys import CONTROLLER, broker_key, node_key, partition_key
from tests.sim.replication.leaving import go_on_leaving
from tests.sim.replication.store import Answer

if TYPE_CHECKING:
    from tests.sim.replication.world import World

# How often a broker whose disk is full sees that.
_LEAVING_FULL: Final = 0.2


class Replica:
    """One partition at one broker."""

    def __init__(self, index: int, log: SimLog) -> None:
        self.index = index
        self.log = log
        self.leader_epoch = -1
        self.revision = 0
        self.leading: Leading | None = None
        self.following: Following | None = None
        self.shown = 0
        self.acted = 0
        self.watermark = min(log.watermark, log.end)
        # Its disk failed: nobody is served here any more, and nothing is asked for.
        self.is_offline = False

    def go_offline(self) -> None:
        self.is_offline = True

    def remove(self) -> None:
        """It went to other brokers."""
        self.log.remove()
        self.shown = self.acted = self.watermark = 0

    @property
    def safe_end(self) -> int:
        """Up to where a leader may do what cannot be undone, as sending delayed messages."""
        return 0 if self.leading is None else self.leading.high_watermark

    def durable_end(self, state: PartitionState) -> int:
        return self.log.flushed if state.is_flushed else self.log.end


class Broker:
    def __init__(self, world: "World", node: NodeId) -> None:
        self.world = world
        self.node = node
        self.disk = world.disks[node]
        self.is_paused = False
        self.is_blind = False
        self.is_dead = False
        # How many of its turns it still waits for others to take over; None while it stays.
        self.patience: int | None = None
        # Keys as the store has them, with values that were never encoded.
        self.image: dict[str, Any] = {}
        self.seen: int | None = None
        self.epoch = -1
        self.is_admitted = False
        self.lease: LeaseId | None = None
        for log in self.disk.logs:
            log.recover()
        self.replicas = [Replica(i, log) for i, log in enumerate(self.disk.logs)]
        for checker, log in zip(world.checkers, self.disk.logs, strict=True):
            checker.begins(node, log)
        self.controlling = Controlling(self)
        disk = self.disk
        disk.identity = begun(
            disk.identity, world.new_id(), f"boot-{disk.boot}", has_lost=disk.has_lost
        )
        disk.has_lost = False
        # Compared as an object: no value is ever encoded here.
        self.incarnation: UUID = disk.identity.incarnation

    @property
    def me(self) -> Member:
        return Member(self.node, self.epoch)

    @property
    def is_leaving(self) -> bool:
        return self.patience is not None

    # --- metadata -------------------------------------------------------------------------

    def watch(self, count: int) -> None:
        """Take in some of what happened, or everything at the start."""
        events = self.world.store.events
        if self.seen is None:
            self.image = {kv.key: kv for kv in self.world.store.keyspace.get_prefix("")}
            self.seen = len(events)
        elif self.seen == len(events):
            return
        else:
            for kind, kv, _ in events[self.seen : self.seen + count]:
                if kind is EventKind.DELETE:
                    self.image.pop(kv.key, None)
                else:
                    self.image[kv.key] = kv
            self.seen = min(len(events), self.seen + count)
        self._review()

    def _review(self) -> None:
        mine = self.image.get(broker_key(self.node))
        if (
            mine is not None
            and mine.value.incarnation is self.incarnation
            and mine.mod_revision > self.epoch
        ):
            # A new registration: nothing that was promised under the old one counts any more.
            self.epoch = mine.mod_revision
            self.is_admitted = False
            for replica in self.replicas:
                self._step_down(replica)
                replica.revision = 0
        record = self.image.get(node_key(self.node))
        if not self.is_admitted and record is not None and record.value.broker_epoch == self.epoch:
            self.disk.identity = admitted(self.disk.identity)
            self.is_admitted = True
        if self.is_admitted:
            for replica in self.replicas:
                stored = self.image.get(partition_key(replica.index))
                if stored is not None:
                    self.learn(replica, stored.value, stored.mod_revision)

    def learn(self, replica: Replica, state: PartitionState, revision: int) -> None:
        """The partition as the store has it, from the watch or from an answer."""
        if revision <= replica.revision:
            return
        replica.revision = revision
        if self.node not in state.replicas:
            self._step_down(replica)
            replica.leader_epoch = max(replica.leader_epoch, state.leader_epoch)
            replica.remove()
            return
        if replica.leading is not None:
            if replica.leading.observe(state, revision):
                self._show(replica)
                return
            self._step_down(replica)
        is_new = state.leader_epoch > replica.leader_epoch
        if not is_new and (state.leader_epoch < replica.leader_epoch or replica.following):
            return
        self._step_down(replica)
        replica.leader_epoch = state.leader_epoch
        if state.leader == self.node:
            if is_new and self.me in state.in_sync:
                self._lead(replica, state, revision)
        elif state.has_leader:
            replica.following = Following(
                state.leader, state.leader_epoch, self.epoch, replica.watermark
            )

    def _lead(self, replica: Replica, state: PartitionState, revision: int) -> None:
        log = replica.log
        log.assign(state.leader_epoch)
        self.world.checkers[replica.index].leads(self.node, self.epoch, state.leader_epoch, log)
        replica.leading = Leading(
            self.me,
            state,
            revision,
            high_watermark=replica.watermark,
            log_end=log.end,
            durable_end=replica.durable_end(state),
            lag_max_ms=self.world.lag_max_ms,
            now_ms=self.world.now_ms,
        )
        self._show(replica)

    def _step_down(self, replica: Replica) -> None:
        if replica.leading is not None:
            replica.watermark = replica.leading.high_watermark
        replica.leading = replica.following = None

    def _show(self, replica: Replica) -> None:
        leading = replica.leading
        if leading is None or replica.is_offline:
            return
        if leading.high_watermark > replica.shown:
            checker = self.world.checkers[replica.index]
            watermark, state = leading.high_watermark, leading.state
            checker.shown(
                self.node, replica.log, replica.shown, watermark, state.leader_epoch, state.quorum
            )
            replica.shown = replica.watermark = watermark

    # --- what a broker does by itself -----------------------------------------------------

    def tick(self) -> None:
        if self.is_dead:
            return
        if self.seen is None:
            if not self.world.store.is_away:
                self.watch(0)
            return
        if self.patience is not None:
            go_on_leaving(self)
            if self.is_dead:
                return
        else:
            mine = self.image.get(broker_key(self.node))
            if mine is None or mine.value.incarnation is not self.incarnation:
                self._register(mine)
        for replica in self.replicas:
            self._stand_aside(replica)
            if replica.is_offline:
                self._resign(replica)
            elif replica.leading is not None:
                self._look_after(replica, replica.leading)
            elif replica.following is not None and (
                self.patience is None or not self._is_out(replica)
            ):
                self._fetch(replica, replica.following)
        held = self.image.get(CONTROLLER)
        if held is None or held.value is self.incarnation:
            self.controlling.act(held)

    def _look_after(self, replica: Replica, leading: Leading) -> None:
        proposal = leading.propose(self.world.now_ms, self.may_join)
        if proposal is not None:
            self._propose(replica, leading, proposal)
        if replica.acted < (end := replica.safe_end):
            checker = self.world.checkers[replica.index]
            checker.acts(self.node, replica.log, replica.acted, end)
            replica.acted = end

    def _is_out(self, replica: Replica) -> bool:
        """Nobody waits for what it copies."""
        stored = self.image.get(partition_key(replica.index))
        return stored is None or self.me not in stored.value.in_sync

    def append(self, replica: Replica, value: int) -> None:
        leading = replica.leading
        if leading is None or replica.is_offline or self.disk.is_full:
            return
        record = (leading.state.leader_epoch, value)
        self.world.checkers[replica.index].stored(self.node, len(replica.log.records), record)
        replica.log.append(record)
        self._grown(replica, leading)

    def flush(self) -> None:
        for replica in self.replicas:
            if replica.is_offline:
                continue
            replica.log.flush(replica.watermark)
            if replica.leading is not None:
                self._grown(replica, replica.leading)

    def _grown(self, replica: Replica, leading: Leading) -> None:
        leading.appended(replica.log.end, replica.durable_end(leading.state))
        self._show(replica)

    def fail(self, replica: Replica) -> None:
        """A sync failed: of what was not on disk before, the kernel may have dropped some."""
        log = replica.log
        if log.kept is None:
            log.kept = self.world.chance.randint(log.flushed, log.end)
            self.world.checkers[replica.index].destroyed(self.node, log, log.kept)
            self.disk.identity = harmed(self.disk.identity)
            replica.go_offline()

    def _resign(self, replica: Replica) -> None:
        self._leave(replica, can_resign, resigned)

    def _stand_aside(self, replica: Replica) -> None:
        """If its disk is full, and it notices."""
        if self.disk.is_full and not replica.is_offline and self.world.random() < _LEAVING_FULL:
            self._leave(replica, can_stand_aside, stood_aside)

    def _leave(
        self,
        replica: Replica,
        may_leave: Callable[[PartitionState, Member, Mapping[NodeId, int]], bool],
        left: Callable[[PartitionState, Member], PartitionState],
    ) -> None:
        key = partition_key(replica.index)
        stored = self.image.get(key)
        if not self.is_admitted or stored is None:
            return
        present = {
            node: found.mod_revision
            for node in self.world.nodes
            if (found := self.image.get(broker_key(node))) is not None
        }
        if may_leave(stored.value, self.me, present):
            compares = [
                Compare.unchanged(key, stored.mod_revision),
                Compare.unchanged(broker_key(self.node), self.epoch),
            ]
            state = left(stored.value, self.me)
            self.world.transact(self, compares, [Put(key, state)])  # type: ignore[arg-type]

    def _register(self, before: KeyValue | None) -> None:
        key = broker_key(self.node)
        value = registration(self.disk.identity)

        def granted_then(lease: LeaseId) -> tuple[list[Compare], list[Op]]:
            self.lease = lease
            unchanged = Compare.unchanged(key, 0 if before is None else before.mod_revision)
            return [unchanged], [Put(key, value, lease)]  # type: ignore[arg-type]

        self.world.ask_store(self, granted_then)

    def _propose(self, replica: Replica, leading: Leading, proposal: Proposal) -> None:
        key = partition_key(replica.index)
        compares = [
            Compare.unchanged(key, proposal.base_revision),
            Compare.unchanged(broker_key(self.node), self.epoch),
        ]
        if proposal.joining is not None:
            joining = proposal.joining
            compares.append(Compare.unchanged(broker_key(joining.node), joining.broker_epoch))
            compares.append(Compare.unchanged(node_key(joining.node), self.staying(joining)))
        put: list[Op] = [Put(key, proposal.state)]  # type: ignore[arg-type]
        epoch = self.epoch

        def answered(answer: Answer) -> None:
            if self.epoch != epoch:
                return
            if answer.succeeded:
                self.learn(replica, proposal.state, answer.revision)
                return
            if answer.found:
                self.learn(replica, answer.found[0].value, answer.found[0].mod_revision)  # type: ignore[arg-type]
            if replica.leading is leading:
                leading.refused(proposal)
                self._show(replica)

        self.world.transact(self, compares, put, [Get(key)], answered)

    def may_join(self, member: Member) -> bool:
        return self.staying(member) > 0

    def staying(self, member: Member) -> int:
        """The revision at which the record of a node says that it is not about to leave."""
        registered = self.image.get(broker_key(member.node))
        record = self.image.get(node_key(member.node))
        if registered is None or registered.mod_revision != member.broker_epoch or record is None:
            return 0
        return 0 if record.value.is_draining else record.mod_revision

    # --- following ------------------------------------------------------------------------

    def _fetch(self, replica: Replica, following: Following) -> None:
        log, index = replica.log, replica.index
        if log.flushed < len(log.records) and self._is_flushed(index):
            # What a killed process left in memory; the leader takes the end for a promise.
            log.flush(replica.watermark)
        question = following.question(log, len(log.records))
        if (leader := self.world.brokers.get(following.leader)) is not None:
            self.world.send(self, leader, lambda leader: leader.serve(index, self, question))

    def serve(self, index: int, follower: "Broker", question: FetchQuestion) -> None:
        replica = self.replicas[index]
        leading = replica.leading
        if leading is None or replica.is_offline:
            return
        if leading.state.leader_epoch != question.leader_epoch:
            return
        log, offset = replica.log, question.offset
        answer: FetchAnswer | None = diverging(question, log, len(log.records))
        records: list[Record] = []
        if answer is None:
            member = Member(follower.node, question.broker_epoch)
            verdict = leading.fetched(member, offset, self.world.now_ms)
            if verdict is not FetchVerdict.ACCEPTED:
                return
            self._show(replica)
            records = log.records[offset : offset + self.world.fetch_max]
            answer = Records(offset + len(records), leading.high_watermark)
        said = answer
        self.world.send(
            self, follower, lambda broker: broker.fetched(index, question, said, records)
        )
        if isinstance(said, Diverging) and self.world.random() < 0.5:
            # It comes again, much later. These are few, and nothing hurts more at the wrong time.
            self.world.held_messages.append(self.world.network[-1])

    def fetched(
        self, index: int, question: FetchQuestion, answer: FetchAnswer, records: list[Record]
    ) -> None:
        replica = self.replicas[index]
        following, log = replica.following, replica.log
        if following is None or replica.is_offline or question.broker_epoch != self.epoch:
            return
        known_watermark = following.high_watermark
        step = following.answered(question, answer, log, len(log.records))
        if isinstance(step, Append):
            if records and self.disk.is_full:
                following.high_watermark = known_watermark
            else:
                self._append_copied(replica, records, step.high_watermark, question.leader_epoch)
            return
        match step:
            case Truncate(to_offset):
                log.truncate(to_offset)
                replica.shown = min(replica.shown, to_offset)
            case Halt(at_offset):
                # Where it is right to stop, an administrator comes and gives up what was lost.
                self.world.checkers[index].halts(self.node, log, at_offset)
                log.truncate(at_offset)
                replica.watermark = replica.shown = following.high_watermark = at_offset
            case StartAt():
                raise Violation("no log here ever loses its start")

    def _append_copied(
        self, replica: Replica, records: list[Record], high_watermark: int, leader_epoch: int
    ) -> None:
        index, log = replica.index, replica.log
        for record in records:
            self.world.checkers[index].stored(self.node, len(log.records), record)
            log.append(record)
        if self._is_flushed(index):
            log.flush(high_watermark)
        if high_watermark > replica.shown:
            quorum = self.image[partition_key(index)].value.quorum
            self.world.checkers[index].shown(
                self.node, log, replica.shown, high_watermark, leader_epoch, quorum
            )
            replica.shown = high_watermark
        replica.watermark = high_watermark

    def _is_flushed(self, index: int) -> bool:
        stored = self.image.get(partition_key(index))
        return stored is not None and stored.value.is_flushed
