"""One broker from its start to its end: the edges around the pure machines, simulated.

It does what a broker's edges do: keeps an image of the metadata from a watch that lags, registers,
runs the machines of its partitions, sends what they say, and is controller when it can be.
"""

from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from goqueue.metadata.store import Compare, Get, KeyValue, LeaseId, Op, Put
from goqueue.model.names import NodeId, TopicPartition, topic_partition
from goqueue.model.replication import Member, PartitionState
from goqueue.state.controller.elections import LogEnd
from goqueue.state.controller.planning import (
    Admit,
    AskLogEnds,
    ChangePartition,
    ClusterView,
    Registered,
    Stored,
    plan,
)
from goqueue.state.membership.identity import admitted, begun, registration
from goqueue.state.replication.following import (
    Append,
    FetchAnswer,
    FetchQuestion,
    Following,
    Halt,
    Records,
    StartAt,
    Truncate,
    diverging,
)
from goqueue.state.replication.leading import FetchVerdict, Leading, Proposal
from tests.sim.replication.checker import Violation
from tests.sim.replication.disk import Record, SimLog
from tests.sim.replication.store import Answer, is_deletion

if TYPE_CHECKING:
    from tests.sim.replication.world import World

CONTROLLER = "/controller"
FETCH_MAX = 3


class Entry(NamedTuple):
    value: Any
    revision: int
    create_revision: int


# Asked for all the time: made once.
_BROKER_KEYS = tuple(f"/brokers/{node}" for node in range(3))
_NODE_KEYS = tuple(f"/nodes/{node}" for node in range(3))
_PARTITION_KEYS = tuple(f"/partitions/{index}" for index in range(3))
broker_key = _BROKER_KEYS.__getitem__
node_key = _NODE_KEYS.__getitem__
partition_key = _PARTITION_KEYS.__getitem__


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
        self.image: dict[str, Entry] = {}
        self.seen: int | None = None
        self.epoch = -1
        self.is_admitted = False
        self.lease: LeaseId | None = None
        self.replicas = [Replica(i, log) for i, log in enumerate(self.disk.logs)]
        for checker, log in zip(world.checkers, self.disk.logs, strict=True):
            checker.begins(node, log)
        self._log_ends: dict[tuple[TopicPartition, int], dict[Member, LogEnd]] = {}
        self._planned_at = -1
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

    # --- metadata -------------------------------------------------------------------------

    def watch(self, count: int) -> None:
        """Take in some of what happened, or everything at the start."""
        events = self.world.store.events
        if self.seen is None:
            self.image = {kv.key: _entry(kv) for kv in self.world.store.keyspace.get_prefix("")}
            self.seen = len(events)
        elif self.seen == len(events):
            return
        else:
            for event in events[self.seen : self.seen + count]:
                if is_deletion(event):
                    self.image.pop(event.kv.key, None)
                else:
                    self.image[event.kv.key] = _entry(event.kv)
            self.seen = min(len(events), self.seen + count)
        self._review()

    def _review(self) -> None:
        mine = self.image.get(broker_key(self.node))
        if (
            mine is not None
            and mine.value.incarnation is self.incarnation
            and mine.revision > self.epoch
        ):
            # A new registration: nothing that was promised under the old one counts any more.
            self.epoch = mine.revision
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
                    self.learn(replica, stored.value, stored.revision)

    def learn(self, replica: Replica, state: PartitionState, revision: int) -> None:
        """The partition as the store has it, from the watch or from an answer."""
        if revision <= replica.revision:
            return
        replica.revision = revision
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
        if leading is not None and leading.high_watermark > replica.shown:
            checker = self.world.checkers[replica.index]
            watermark, state = leading.high_watermark, leading.state
            checker.shown(
                self.node, replica.log, replica.shown, watermark, state.leader_epoch, state.quorum
            )
            replica.shown = replica.watermark = watermark

    # --- what a broker does by itself -----------------------------------------------------

    def tick(self) -> None:
        if self.seen is None:
            if not self.world.store.is_away:
                self.watch(0)
            return
        mine = self.image.get(broker_key(self.node))
        if mine is None or mine.value.incarnation is not self.incarnation:
            self._register(mine)
        for replica in self.replicas:
            if replica.leading is not None and (
                proposal := replica.leading.propose(self.world.now_ms)
            ):
                self._propose(replica, replica.leading, proposal)
            if replica.leading is not None and replica.acted < (end := replica.safe_end):
                self.world.checkers[replica.index].acts(self.node, replica.log, replica.acted, end)
                replica.acted = end
            if replica.following is not None:
                self._fetch(replica, replica.following)
        self._control()

    def append(self, replica: Replica, value: int) -> None:
        leading = replica.leading
        if leading is None:
            return
        record = (leading.state.leader_epoch, value)
        self.world.checkers[replica.index].stored(self.node, replica.log.end, record)
        replica.log.append(record)
        self._grown(replica, leading)

    def flush(self) -> None:
        for replica in self.replicas:
            replica.log.flush(replica.watermark)
            if replica.leading is not None:
                self._grown(replica, replica.leading)

    def _grown(self, replica: Replica, leading: Leading) -> None:
        leading.appended(replica.log.end, replica.durable_end(leading.state))
        self._show(replica)

    def _register(self, before: Entry | None) -> None:
        key = broker_key(self.node)
        value = registration(self.disk.identity)

        def granted_then(lease: LeaseId) -> tuple[list[Compare], list[Op]]:
            self.lease = lease
            unchanged = Compare.unchanged(key, 0 if before is None else before.revision)
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

    # --- following ------------------------------------------------------------------------

    def _fetch(self, replica: Replica, following: Following) -> None:
        question = following.question(replica.log, replica.log.end)
        index = replica.index

        def asked(leader: "Broker") -> None:
            answer = leader.serve(index, self.node, question)
            if answer is not None:
                self.world.send(
                    leader, self, lambda broker: broker.fetched(index, question, *answer)
                )

        self.world.send_to(self, following.leader, asked)

    def serve(
        self, index: int, follower: NodeId, question: FetchQuestion
    ) -> tuple[FetchAnswer, list[Record]] | None:
        replica = self.replicas[index]
        leading = replica.leading
        if leading is None or leading.state.leader_epoch != question.leader_epoch:
            return None
        log = replica.log
        if (parting := diverging(question, log, log.end)) is not None:
            return parting, []
        member = Member(follower, question.broker_epoch)
        if leading.fetched(member, question.offset, self.world.now_ms) is not FetchVerdict.ACCEPTED:
            return None
        self._show(replica)
        records = log.records[question.offset : question.offset + FETCH_MAX]
        return Records(question.offset + len(records), leading.high_watermark), records

    def fetched(
        self, index: int, question: FetchQuestion, answer: FetchAnswer, records: list[Record]
    ) -> None:
        replica = self.replicas[index]
        following, log = replica.following, replica.log
        if following is None or question.broker_epoch != self.epoch:
            return
        match following.answered(question, answer, log, log.end):
            case Append(high_watermark):
                for record in records:
                    self.world.checkers[index].stored(self.node, log.end, record)
                    log.append(record)
                if self._is_flushed(index):
                    log.flush(high_watermark)
                if high_watermark > replica.shown:
                    quorum = self.image[partition_key(index)].value.quorum
                    self.world.checkers[index].shown(
                        self.node, log, replica.shown, high_watermark, question.leader_epoch, quorum
                    )
                    replica.shown = high_watermark
                replica.watermark = high_watermark
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

    def _is_flushed(self, index: int) -> bool:
        stored = self.image.get(partition_key(index))
        return stored is not None and stored.value.is_flushed

    # --- controlling ----------------------------------------------------------------------

    def _control(self) -> None:
        held = self.image.get(CONTROLLER)
        if held is None:
            if self.lease is not None:
                put: list[Op] = [Put(CONTROLLER, self.incarnation, self.lease)]  # type: ignore[arg-type]
                self.world.transact(self, [Compare.missing(CONTROLLER)], put)
            return
        if held.value is not self.incarnation:
            return
        if self._planned_at == self.seen and self.world.now_ms % 4:
            return
        self._planned_at = self.seen or 0
        mine = Compare.unchanged(CONTROLLER, held.revision)
        view = self._view()
        for action in plan(view):
            match action:
                case ChangePartition(partition, state, revision, relies_on):
                    key = partition_key(partition.partition)
                    compares = [mine, Compare.unchanged(key, revision)]
                    compares += [
                        Compare.unchanged(broker_key(member.node), member.broker_epoch)
                        for member in relies_on
                    ]
                    self.world.transact(self, compares, [Put(key, state)])  # type: ignore[arg-type]
                case Admit(node, record, revision):
                    key = node_key(node)
                    compares = [
                        mine,
                        Compare.unchanged(key, revision),
                        Compare.unchanged(broker_key(node), record.broker_epoch),
                    ]
                    self.world.transact(self, compares, [Put(key, record)])  # type: ignore[arg-type]
                case AskLogEnds(partition, members):
                    epoch = view.partitions[partition].state.leader_epoch
                    for member in members:
                        self._ask_log_end(partition, epoch, member)

    def _view(self) -> ClusterView:
        partitions = {
            topic_partition("t", i): Stored(found.value, found.revision)
            for i in range(len(self.replicas))
            if (found := self.image.get(partition_key(i))) is not None
        }
        brokers, nodes = {}, {}
        for node in self.world.nodes:
            if (found := self.image.get(broker_key(node))) is not None:
                brokers[node] = Registered(found.value, found.revision)
            if (found := self.image.get(node_key(node))) is not None:
                nodes[node] = (found.value, found.revision)
        ends = {
            partition: self._log_ends.get((partition, stored.state.leader_epoch), {})
            for partition, stored in partitions.items()
        }
        return ClusterView(partitions, brokers, nodes, ends)

    def _ask_log_end(self, partition: TopicPartition, leader_epoch: int, member: Member) -> None:
        def asked(other: "Broker") -> None:
            replica = other.replicas[partition.partition]
            # Who has not accepted the epoch may still follow an older leader.
            if other.me == member and other.is_admitted and replica.leader_epoch == leader_epoch:
                end = replica.log.log_end()
                self.world.send(
                    other, self, lambda broker: broker.told(partition, leader_epoch, member, end)
                )

        self.world.send_to(self, member.node, asked)

    def told(
        self, partition: TopicPartition, leader_epoch: int, member: Member, end: LogEnd
    ) -> None:
        self._log_ends.setdefault((partition, leader_epoch), {})[member] = end
        self._planned_at = -1


def _entry(kv: KeyValue) -> Entry:
    return Entry(kv.value, kv.mod_revision, kv.create_revision)
