"""Groups of transactions: whatever crashes, a sequence is committed by all its members or by none.

Members are replaced while they write, time out, and are named in commits of which the answer is
lost; the coordinator crashes with any part of what it decided in its log.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from goqueue.model.names import topic_partition
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.group_messages import (
    AbortGroup,
    CommitGroup,
    GroupAnswer,
    GroupMember,
    GroupOutcome,
    RenewGroup,
)
from goqueue.model.transactions.group_names import member_id
from goqueue.model.transactions.messages import (
    AddPartitions,
    InitProducerId,
    MarkerResult,
    MarkersWritten,
    ProducerIdAnswer,
    WriteMarkers,
)
from goqueue.model.transactions.states import TransactionState
from goqueue.state.machine import Outcome, StateRecord, Ticket
from goqueue.state.transactions.groups import is_group_record
from goqueue.state.transactions.machine import TransactionMachine
from goqueue.state.transactions.producer_ids import ProducerIds
from goqueue.state.transactions.transaction import from_record
from tests.unit.state import durable_records

GROUP = "query"
MEMBERS = tuple(member_id(GROUP, f"{task}.0") for task in range(3))
PARTITION = topic_partition("t", 0)
TIMEOUT_MS = 1_000
MAX_KNOWN = 8


class GroupsWorld(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ids = ProducerIds()
        self.ids.add_block(1, 10_000)
        self.now_ms = 0
        self.records: list[StateRecord] = []
        self.machine = self.new_machine()
        self.effects: list[WriteMarkers] = []
        # Identities that were given out, oldest first, and those that wrote.
        self.known: list[GroupMember] = []
        self.wrote: set[GroupMember] = set()
        self.ended: dict[GroupMember, bool] = {}
        # Decided commits: sequence -> who wrote among those it named.
        self.decided: dict[int, set[GroupMember]] = {}

    def new_machine(self) -> TransactionMachine:
        return TransactionMachine(
            coordinator_epoch=0,
            next_producer_id=self.ids.take,
            offsets_partition=lambda _: PARTITION,
        )

    # --- the runtime ----------------------------------------------------------------------

    def carry_out(self, outcome: Outcome, *, appended: int | None = None) -> object:
        """`appended`: a crash leaves only so many of the records in the log."""
        kept = outcome.records if appended is None else outcome.records[:appended]
        for record in kept:
            self.records.append(record)
            self.machine.replay(record)
            self.note(record)
        if appended is not None:
            self.restart()
            return None
        self.effects += [each for each in outcome.effects if isinstance(each, WriteMarkers)]
        return outcome.replies[0].response if outcome.replies else None

    def note(self, record: StateRecord) -> None:
        if is_group_record(record):
            return
        _, transaction = from_record(record)
        if transaction is None or not transaction.state.is_prepared:
            return
        member = GroupMember(
            transaction.transactional_id, transaction.producer_id, transaction.last_epoch
        )
        is_commit = transaction.state is TransactionState.PREPARE_COMMIT
        assert member not in self.ended, "a transaction ends once"
        self.ended[member] = is_commit
        if is_commit:
            assert any(member in members for members in self.decided.values())

    def restart(self) -> None:
        self.effects.clear()
        self.machine = self.new_machine()
        for record in self.records:
            self.machine.replay(record)
        self.carry_out(self.machine.loaded(self.now_ms))

    @rule(compacted=st.booleans())
    def crash(self, compacted: bool) -> None:
        if compacted:
            self.records = list(durable_records.of_transactions(self.machine))
        self.restart()

    @rule(elapsed_ms=st.integers(1, TIMEOUT_MS))
    def wait(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms
        due_ms = self.machine.next_deadline_ms()
        if due_ms is not None and due_ms <= self.now_ms:
            self.carry_out(self.machine.on_deadline(self.now_ms))

    @rule()
    def write_markers(self) -> None:
        while self.effects:
            effect = self.effects.pop(0)
            report = MarkersWritten(
                transactional_id=effect.transactional_id,
                producer_id=effect.producer_id,
                producer_epoch=effect.producer_epoch,
                results=dict.fromkeys(effect.partitions, MarkerResult.WRITTEN),
            )
            self.carry_out(self.machine.markers_written(report, now_ms=self.now_ms))

    # --- tasks and drivers ----------------------------------------------------------------

    @rule(name=st.sampled_from(MEMBERS))
    def start_task_at_last(self, name: str) -> None:
        """Until whoever wrote under this name before is out of the way."""
        self.start_task(name)
        self.write_markers()
        self.start_task(name)

    @rule(name=st.sampled_from(MEMBERS))
    def start_task(self, name: str) -> None:
        request = InitProducerId(transactional_id=name, timeout_ms=TIMEOUT_MS)
        answer = self.carry_out(
            self.machine.init_producer_id(request, ticket=Ticket(0), now_ms=self.now_ms)
        )
        assert isinstance(answer, ProducerIdAnswer)
        if answer.error is TransactionError.NONE:
            self.known.append(GroupMember(name, answer.producer_id, answer.producer_epoch))
            self.known = self.known[-MAX_KNOWN:]

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(self.known))
        request = AddPartitions(
            transactional_id=member.transactional_id,
            producer_id=member.producer_id,
            producer_epoch=member.producer_epoch,
            partitions=frozenset({PARTITION}),
        )
        self.carry_out(self.machine.add_partitions(request, ticket=Ticket(0), now_ms=self.now_ms))
        state = self.machine.transactions.get(member.transactional_id)
        if (
            state is not None
            and state.state is TransactionState.ONGOING
            and (state.producer_id, state.producer_epoch) == member[1:]
        ):
            assert member not in self.ended
            self.wrote.add(member)

    @rule(data=st.data(), ahead=st.integers(-1, 1), appended=st.none() | st.integers(0, 4))
    def commit(self, data: st.DataObject, ahead: int, appended: int | None) -> None:
        members = self.choose(data)
        sequence = max(0, max(self.decided, default=-1) + ahead)
        outcome = self.machine.commit_group(
            CommitGroup(group_id=GROUP, sequence=sequence, members=members),
            ticket=Ticket(0),
            now_ms=self.now_ms,
        )
        answer = outcome.replies[0].response
        assert isinstance(answer, GroupAnswer)
        assert (answer.outcome is GroupOutcome.ALREADY_COMMITTED) == (sequence in self.decided)
        if answer.outcome is GroupOutcome.COMMITTED:
            assert is_group_record(outcome.records[0]), "the decision comes first"
            writers = self.wrote.intersection(members)
            assert not any(member in self.ended or self.is_over(member) for member in members)
            if appended is None or appended > 0:
                self.decided[sequence] = writers
        elif answer.outcome is None:
            assert not outcome.records, "a refused commit changes nothing"
            assert any(self.is_over(member) for member in members)
        self.carry_out(outcome, appended=appended)

    @rule(data=st.data(), ahead=st.integers(0, 1), everybody=st.booleans())
    def abort(self, data: st.DataObject, ahead: int, everybody: bool) -> None:
        sequence = max(0, max(self.decided, default=-1) + ahead)
        request = AbortGroup(
            group_id=GROUP,
            sequence=sequence,
            members=None if everybody else self.choose(data),
        )
        self.carry_out(self.machine.abort_group(request, ticket=Ticket(0), now_ms=self.now_ms))

    @rule()
    def renew(self) -> None:
        request = RenewGroup(group_id=GROUP)
        self.carry_out(self.machine.renew_group(request, ticket=Ticket(0), now_ms=self.now_ms))

    def choose(self, data: st.DataObject) -> tuple[GroupMember, ...]:
        """At most one identity of each member, more often the last than an older one."""
        last = {member.transactional_id: member for member in self.known}
        chosen = data.draw(st.sets(st.sampled_from(MEMBERS)))
        members = [last[name] for name in sorted(chosen) if name in last]
        if self.known and data.draw(st.integers(0, 4)) == 0:
            old = data.draw(st.sampled_from(self.known))
            members = [m for m in members if m.transactional_id != old.transactional_id] + [old]
        return tuple(members)

    def is_over(self, member: GroupMember) -> bool:
        found = self.machine.transactions.get(member.transactional_id)
        return found is None or (found.producer_id, found.producer_epoch) != member[1:]

    def teardown(self) -> None:
        self.restart()
        self.write_markers()
        committed = {member for member, is_commit in self.ended.items() if is_commit}
        assert committed == set().union(*self.decided.values())


GroupsWorld.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestGroups = GroupsWorld.TestCase
