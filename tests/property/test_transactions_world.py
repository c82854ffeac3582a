"""A coordinator, its partitions and careless clients: whatever happens, a transaction has one end.

Clients are retried, forgotten and replaced while they still write (zombies); the coordinator
crashes at any step, before or after its append; markers fail, come late and come twice.
"""

from dataclasses import dataclass, field

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from goqueue.model.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import GoQueueError, InvalidProducerEpoch, TransactionCoordinatorFenced
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.messages import (
    AddOffsets,
    AddOffsetsAnswer,
    AddPartitions,
    AddPartitionsAnswer,
    EndTransaction,
    InitProducerId,
    MarkerResult,
    MarkersWritten,
    ProducerIdAnswer,
    WriteMarkers,
)
from goqueue.model.transactions.states import TransactionState
from goqueue.state.machine import Outcome, StateRecord, Ticket
from goqueue.state.producers.partition import Duplicate, PartitionProducers
from goqueue.state.producers.verification import ALREADY_ONGOING
from goqueue.state.transactions.machine import TransactionMachine
from goqueue.state.transactions.producer_ids import ProducerIds
from goqueue.state.transactions.transaction import (
    LAST_CLIENT_EPOCH,
    Transaction,
    from_record,
    to_record,
)
from tests.unit.state import durable_records

TIMEOUT_MS = 1_000
IDS = ("alpha", "beta")
PARTITIONS = tuple(topic_partition("t", index) for index in range(2))
# More clients make more zombies, but less happens to each.
MAX_CLIENTS = 4
OFFSETS = topic_partition("__consumer_offsets", 0)
OK = TransactionError.NONE


@dataclass
class Batch:
    """A stored batch, with the coordinator's count of the id's transactions at that time."""

    producer_id: int
    transactional_id: str
    instance: int
    offset: int


@dataclass
class Partition:
    producers: PartitionProducers = field(default_factory=PartitionProducers)
    log: list[tuple[BatchHeader, Marker | None]] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)

    def append(self, header: BatchHeader, marker: Marker | None) -> None:
        self.log.append((header, marker))
        self.producers.update(header, marker)

    def outcomes(self) -> list[tuple[Batch, MarkerType | None]]:
        """What a read-committed reader makes of each batch."""
        result = []
        for batch in self.batches:
            ends = (
                marker.type
                for header, marker in self.log
                if marker is not None
                and header.producer_id == batch.producer_id
                and header.base_offset > batch.offset
            )
            result.append((batch, next(ends, None)))
        return result


@dataclass
class Client:
    transactional_id: str
    bumps_epoch: bool
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    # Verified but not yet appended: (partition, header, guard).
    on_its_way: list[tuple[TopicPartition, BatchHeader, int]] = field(default_factory=list)

    def become(self, answer: ProducerIdAnswer) -> None:
        if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()


class TransactionsWorld(RuleBasedStateMachine):
    # The epoch at which every transactional id begins.
    first_epoch = 0

    def __init__(self) -> None:
        super().__init__()
        self.ids = ProducerIds()
        self.ids.add_block(1, 1_000)
        self.now_ms = 0
        self.coordinator_epoch = 0
        self.records: list[StateRecord] = []
        self.machine = self.new_machine()
        self.partitions = {name: Partition() for name in (*PARTITIONS, OFFSETS)}
        self.clients: list[Client] = []
        self.effects: list[WriteMarkers] = []
        self.done_effects: list[WriteMarkers] = []
        # Per transactional id, how each of its transactions was prepared to end.
        self.prepared: dict[str, list[MarkerType]] = {name: [] for name in IDS}

    def new_machine(self) -> TransactionMachine:
        return TransactionMachine(
            coordinator_epoch=self.coordinator_epoch,
            next_producer_id=self.ids.take,
            offsets_partition=lambda _: OFFSETS,
        )

    # --- the runtime ----------------------------------------------------------------------

    def carry_out(self, outcome: Outcome) -> object:
        for record in outcome.records:
            self.records.append(record)
            self.machine.replay(record)
            transactional_id, transaction = from_record(record)
            if transaction is not None and transaction.state.is_prepared:
                commit = transaction.state is TransactionState.PREPARE_COMMIT
                end = MarkerType.COMMIT if commit else MarkerType.ABORT
                self.prepared[transactional_id].append(end)
        self.effects += [e for e in outcome.effects if isinstance(e, WriteMarkers)]
        return outcome.replies[0].response if outcome.replies else None

    def restart(self) -> None:
        self.coordinator_epoch += 1
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

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), commit=st.booleans(), appended=st.booleans())
    def crash_while_ending(self, data: st.DataObject, commit: bool, appended: bool) -> None:
        """The client never learns whether its request was seen."""
        client = data.draw(st.sampled_from(self.clients))
        outcome = self.machine.end_transaction(
            self.end_request(client, commit), ticket=Ticket(0), now_ms=self.now_ms
        )
        if appended:
            self.carry_out(outcome)
        self.restart()

    @rule(elapsed_ms=st.integers(1, TIMEOUT_MS))
    def wait(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms
        due_ms = self.machine.next_deadline_ms()
        if due_ms is not None and due_ms <= self.now_ms:
            self.carry_out(self.machine.on_deadline(self.now_ms))

    @precondition(lambda self: self.effects)
    @rule(data=st.data(), share=st.integers(1, 4), fails=st.booleans(), reported=st.booleans())
    def write_markers(self, data: st.DataObject, share: int, fails: bool, reported: bool) -> None:
        effect = self.effects.pop(data.draw(st.integers(0, len(self.effects) - 1)))
        chosen = sorted(effect.partitions)[:share]
        rest = effect.partitions - set(chosen)
        results = {name: self.write_marker(effect, name, may_skip=fails) for name in chosen}
        self.done_effects.append(effect)
        if not reported:
            self.restart()
            return
        self.report(effect, results)
        if rest:
            self.report(effect, dict.fromkeys(rest, MarkerResult.RETRY))

    @rule()
    def write_all_markers(self) -> None:
        while self.effects:
            effect = self.effects.pop(0)
            self.done_effects.append(effect)
            self.report(
                effect,
                {n: self.write_marker(effect, n, may_skip=False) for n in effect.partitions},
            )

    def write_marker(
        self, effect: WriteMarkers, name: TopicPartition, *, may_skip: bool
    ) -> MarkerResult:
        if may_skip:
            return MarkerResult.RETRY
        partition = self.partitions[name]
        try:
            wanted = partition.producers.check_marker(
                effect.producer_id,
                effect.producer_epoch,
                effect.marker.coordinator_epoch,
                bumps_epoch=effect.bumps_epoch,
            )
        except (InvalidProducerEpoch, TransactionCoordinatorFenced):
            return MarkerResult.FENCED
        if wanted:
            header = BatchHeader(
                len(partition.log), 0, 0, 2, 0, TRANSACTIONAL_BIT | CONTROL_BIT, 0, 0, self.now_ms,
                effect.producer_id, effect.producer_epoch, -1, 1,
            )  # fmt: skip
            partition.append(header, effect.marker)
        return MarkerResult.WRITTEN

    def report(self, effect: WriteMarkers, results: dict[TopicPartition, MarkerResult]) -> None:
        assert MarkerResult.FENCED not in results.values(), "a live coordinator was fenced"
        outcome = self.machine.markers_written(
            MarkersWritten(
                transactional_id=effect.transactional_id,
                producer_id=effect.producer_id,
                producer_epoch=effect.producer_epoch,
                results=results,
            ),
            now_ms=self.now_ms,
        )
        self.carry_out(outcome)

    @precondition(lambda self: any(e.bumps_epoch for e in self.done_effects))
    @rule(data=st.data())
    def old_marker_arrives_again(self, data: st.DataObject) -> None:
        """Version 2 can tell; version 1 relies on one coordinator writing each marker once."""
        effect = data.draw(st.sampled_from([e for e in self.done_effects if e.bumps_epoch][-3:]))
        for client in self.clients:
            # The dangerous moment is when the producer has begun its next transaction.
            if (client.producer_id, client.epoch) == (effect.producer_id, effect.producer_epoch):
                self.send(client, min(effect.partitions), at_once=True)
        for name in effect.partitions:
            self.write_marker(effect, name, may_skip=False)

    # --- clients --------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < MAX_CLIENTS)
    @rule(name=st.sampled_from(IDS), bumps_epoch=st.booleans())
    def new_client(self, name: str, bumps_epoch: bool) -> None:
        client = Client(name, bumps_epoch)
        self.clients.append(client)
        self.initialise(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), claims=st.booleans())
    def initialise_again(self, data: st.DataObject, claims: bool) -> None:
        self.initialise(data.draw(st.sampled_from(self.clients)), claims=claims)

    def initialise(self, client: Client, *, claims: bool = False) -> None:
        known = claims and client.producer_id >= 0
        request = InitProducerId(
            transactional_id=client.transactional_id,
            timeout_ms=TIMEOUT_MS,
            producer_id=client.producer_id if known else -1,
            producer_epoch=client.epoch if known else -1,
        )
        before = self.machine.transactions.get(client.transactional_id)
        answer = self.carry_out(
            self.machine.init_producer_id(request, ticket=Ticket(0), now_ms=self.now_ms)
        )
        assert isinstance(answer, ProducerIdAnswer)
        if answer.error is OK:
            assert before is None or before.state.is_idle
            client.become(answer)
            if before is None:
                self.age(client)

    def age(self, client: Client) -> None:
        transaction = self.machine.transactions[client.transactional_id]
        aged = msgspec.structs.replace(transaction, producer_epoch=self.first_epoch)
        self.carry_out(Outcome(records=[to_record(aged)]))
        client.epoch = self.first_epoch

    @precondition(lambda self: any(c.producer_id >= 0 for c in self.clients))
    @rule(data=st.data(), name=st.sampled_from(PARTITIONS), at_once=st.booleans())
    def produce(self, data: st.DataObject, name: TopicPartition, at_once: bool) -> None:
        client = data.draw(st.sampled_from([c for c in self.clients if c.producer_id >= 0]))
        self.send(client, name, at_once=at_once)

    def send(self, client: Client, name: TopicPartition, *, at_once: bool) -> None:
        partition = self.partitions[name]
        header = BatchHeader(
            0, 0, 0, 2, 0, TRANSACTIONAL_BIT, 0, 0, self.now_ms,
            client.producer_id, client.epoch, client.sequences.get(name, 0), 1,
        )  # fmt: skip
        guard = partition.producers.start_verification(
            header, bumps_epoch=client.bumps_epoch, now_ms=self.now_ms
        )
        if not client.bumps_epoch:
            # The client adds the partition, then its leader verifies that.
            if self.add(client, name, verify_only=False) is not OK:
                return
            if guard != ALREADY_ONGOING and self.add(client, name, verify_only=True) is not OK:
                return
        elif guard != ALREADY_ONGOING and self.add(client, name, verify_only=False) is not OK:
            return
        client.on_its_way.append((name, header, guard))
        if at_once:
            self.arrive(client, len(client.on_its_way) - 1)

    @precondition(lambda self: any(c.producer_id >= 0 for c in self.clients))
    @rule(data=st.data(), commit=st.booleans())
    def run_a_whole_transaction(self, data: st.DataObject, commit: bool) -> None:
        client = data.draw(st.sampled_from([c for c in self.clients if c.producer_id >= 0]))
        for name in PARTITIONS:
            self.send(client, name, at_once=data.draw(st.booleans()))
        self.end_by(client, commit)
        self.write_all_markers()

    def add(self, client: Client, name: TopicPartition, *, verify_only: bool) -> TransactionError:
        request = AddPartitions(
            transactional_id=client.transactional_id,
            producer_id=client.producer_id,
            producer_epoch=client.epoch,
            partitions=frozenset({name}),
            verify_only=verify_only,
        )
        answer = self.carry_out(
            self.machine.add_partitions(request, ticket=Ticket(0), now_ms=self.now_ms)
        )
        assert isinstance(answer, AddPartitionsAnswer)
        if answer.errors[name] is OK:
            self.assert_owner(client)
        return answer.errors[name]

    @precondition(lambda self: any(c.producer_id >= 0 for c in self.clients))
    @rule(data=st.data())
    def commit_offsets(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([c for c in self.clients if c.producer_id >= 0]))
        request = AddOffsets(
            transactional_id=client.transactional_id,
            producer_id=client.producer_id,
            producer_epoch=client.epoch,
            group_id="g",
        )
        answer = self.carry_out(
            self.machine.add_offsets(request, ticket=Ticket(0), now_ms=self.now_ms)
        )
        assert isinstance(answer, AddOffsetsAnswer)
        if answer.error is OK:
            self.assert_owner(client)
            header = BatchHeader(
                0, 0, 0, 2, 0, TRANSACTIONAL_BIT, 0, 0, self.now_ms,
                client.producer_id, client.epoch, -1, 1,
            )  # fmt: skip
            guard = self.partitions[OFFSETS].producers.start_verification(
                header, bumps_epoch=client.bumps_epoch, now_ms=self.now_ms
            )
            client.on_its_way.append((OFFSETS, header, guard))
            self.arrive(client, len(client.on_its_way) - 1)

    @precondition(lambda self: any(c.on_its_way for c in self.clients))
    @rule(data=st.data())
    def late_batch_arrives(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([c for c in self.clients if c.on_its_way]))
        self.arrive(client, data.draw(st.integers(0, len(client.on_its_way) - 1)))

    def arrive(self, client: Client, index: int) -> None:
        name, header, guard = client.on_its_way.pop(index)
        partition = self.partitions[name]
        header = header._replace(base_offset=len(partition.log))
        try:
            answer = partition.producers.check(header, guard=guard)
        except GoQueueError:
            return
        if isinstance(answer, Duplicate):
            return
        transaction = self.machine.transactions[client.transactional_id]
        assert not transaction.state.is_idle, "a transaction that nobody will end"
        assert name in transaction.partitions
        ended = len(self.prepared[client.transactional_id])
        is_prepared = transaction.state.is_prepared
        partition.append(header, None)
        partition.batches.append(
            Batch(
                header.producer_id,
                client.transactional_id,
                ended - 1 if is_prepared else ended,
                header.base_offset,
            )
        )
        if header.base_sequence >= 0 and header.producer_epoch == client.epoch:
            client.sequences[name] = header.base_sequence + 1

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), commit=st.booleans())
    def end(self, data: st.DataObject, commit: bool) -> None:
        self.end_by(data.draw(st.sampled_from(self.clients)), commit)

    def end_by(self, client: Client, commit: bool) -> None:
        before = self.machine.transactions.get(client.transactional_id)
        answer = self.carry_out(
            self.machine.end_transaction(
                self.end_request(client, commit), ticket=Ticket(0), now_ms=self.now_ms
            )
        )
        assert isinstance(answer, ProducerIdAnswer)
        if answer.error is not OK:
            return
        assert before is not None
        wanted = MarkerType.COMMIT if commit else MarkerType.ABORT
        assert self.prepared[client.transactional_id][-1] is wanted
        if before.state is TransactionState.ONGOING:
            assert (before.producer_id, before.producer_epoch) == (
                client.producer_id,
                client.epoch,
            )
        if client.bumps_epoch:
            client.become(answer)

    def end_request(self, client: Client, commit: bool) -> EndTransaction:
        return EndTransaction(
            transactional_id=client.transactional_id,
            producer_id=client.producer_id,
            producer_epoch=client.epoch,
            commit=commit,
            bumps_epoch=client.bumps_epoch,
        )

    def assert_owner(self, client: Client) -> None:
        transaction = self.machine.transactions[client.transactional_id]
        assert transaction.state is TransactionState.ONGOING
        assert (transaction.producer_id, transaction.producer_epoch) == (
            client.producer_id,
            client.epoch,
        )

    # --- what must hold -------------------------------------------------------------------

    @invariant()
    def replaying_the_log_gives_the_live_state(self) -> None:
        replayed = self.new_machine()
        for record in self.records:
            replayed.replay(record)
        assert dict(replayed.transactions) == dict(self.machine.transactions)

    @invariant()
    def every_marker_is_as_prepared(self) -> None:
        for partition in self.partitions.values():
            for batch, outcome in partition.outcomes():
                if outcome is not None:
                    assert outcome is self.prepared[batch.transactional_id][batch.instance]

    @invariant()
    def no_client_has_the_fencing_epoch(self) -> None:
        assert all(client.epoch <= LAST_CLIENT_EPOCH for client in self.clients)

    @invariant()
    def no_two_clients_share_an_identity(self) -> None:
        identities = [(c.producer_id, c.epoch) for c in self.clients if c.producer_id >= 0]
        assert len(set(identities)) == len(identities)

    @invariant()
    def open_transactions_are_known_to_the_coordinator(self) -> None:
        by_producer: dict[int, Transaction] = {
            t.producer_id: t for t in self.machine.transactions.values()
        }
        for name, partition in self.partitions.items():
            for view in partition.producers.describe():
                if view.transaction_first_offset >= 0:
                    transaction = by_producer[view.producer_id]
                    assert not transaction.state.is_idle
                    assert name in transaction.partitions

    def teardown(self) -> None:
        """Left alone, everything comes to its end."""
        for _ in range(4):
            self.wait(10 * TIMEOUT_MS)
            self.write_all_markers()
        for transaction in self.machine.transactions.values():
            assert transaction.state.is_idle
        for partition in self.partitions.values():
            end = len(partition.log)
            assert partition.producers.last_stable_offset(end) == end
            assert all(outcome is not None for _, outcome in partition.outcomes())


class ExhaustedWorld(TransactionsWorld):
    """Epochs are used up after a few transactions: producer ids are replaced meanwhile."""

    first_epoch = LAST_CLIENT_EPOCH - 2


TestTransactionsWorld = TransactionsWorld.TestCase
TestTransactionsWorld.settings = settings(max_examples=120, stateful_step_count=50, deadline=None)
TestExhaustedWorld = ExhaustedWorld.TestCase
TestExhaustedWorld.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
