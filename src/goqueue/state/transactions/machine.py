"""The transaction coordinator: one machine per partition of `__transaction_state`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from goqueue.model.broker_config import BrokerConfig
from goqueue.model.fairness.amounts import Amounts
from goqueue.model.names import TopicPartition
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.group_messages import (
    AbortGroup,
    CommitGroup,
    DescribeGroup,
    GroupAnswer,
    GroupDescription,
    GroupRenewed,
    RenewGroup,
)
from goqueue.model.transactions.group_names import group_of
from goqueue.model.transactions.messages import (
    AddOffsets,
    AddOffsetsAnswer,
    AddPartitions,
    AddPartitionsAnswer,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    ListTransactionsAnswer,
    MarkerResult,
    MarkersWritten,
    ProducerIdAnswer,
    TransactionDescription,
)
from goqueue.model.transactions.states import TransactionState
from goqueue.state.machine import Deadlines, Outcome, StateRecord, Ticket
from goqueue.state.transactions.ending import complete, end, fence
from goqueue.state.transactions.groups import (
    MEMBER_EXPIRATION_MS,
    GroupDecision,
    TransactionGroups,
    is_group_record,
)
from goqueue.state.transactions.initialising import (
    TakeProducerId,
    begin_epoch,
    begin_id,
    check_claim,
    check_request,
)
from goqueue.state.transactions.listing import describe_one, list_matching
from goqueue.state.transactions.markers import PendingMarkers
from goqueue.state.transactions.transaction import Transaction, from_record, to_record, to_tombstone

# Bounds one call of `on_deadline`; the rest stays due and is taken by the next call.
DUE_PER_CALL: Final = 500

_BROKER: Final = BrokerConfig()

NO_EPOCH: Final = -1

OffsetsPartition = Callable[[str], TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    max_timeout_ms: int = _BROKER.transaction_max_timeout_ms
    id_expiration_ms: int = _BROKER.transactional_id_expiration_ms


class TransactionMachine:
    """Decides for the transactional ids of one partition of the state topic.

    `coordinator_epoch` is that partition's leader epoch; where it is not known yet, `lead` tells it
    before `loaded`. `next_producer_id` returns None when no id is at hand. `offsets_partition` says
    where a group keeps its offsets.
    """

    def __init__(
        self,
        *,
        coordinator_epoch: int = NO_EPOCH,
        next_producer_id: TakeProducerId,
        offsets_partition: OffsetsPartition,
        settings: TransactionSettings | None = None,
    ) -> None:
        self._coordinator_epoch = coordinator_epoch
        self._next_producer_id = next_producer_id
        self._offsets_partition = offsets_partition
        self._settings = settings or TransactionSettings()
        self._transactions: dict[str, Transaction] = {}
        # Per id the one thing it waits for: time-out when ongoing, expiry when idle, the next
        # try of its failed markers when prepared.
        self._deadlines: Deadlines[str] = Deadlines()
        self._pending: dict[str, PendingMarkers] = {}
        self._groups = TransactionGroups(self._transactions)
        # In all transactions that are not over.
        self.partitions_held = Amounts()

    @property
    def transactions(self) -> Mapping[str, Transaction]:
        """The durable state, to read only."""
        return self._transactions

    def on_settings_changed(self, settings: TransactionSettings) -> None:
        """What holds for requests, and for ids that fall idle, from now on."""
        self._settings = settings

    # --- commands -------------------------------------------------------------------------

    def init_producer_id(
        self, request: InitProducerId, *, ticket: Ticket[ProducerIdAnswer], now_ms: int
    ) -> Outcome:
        outcome = Outcome()
        error = check_request(request, self._settings.max_timeout_ms)
        if error is TransactionError.NONE:
            if request.transactional_id is None:
                outcome.reply(ticket, self._plain_producer_id())
                return outcome
            decided = self._decide_init(request, request.transactional_id, outcome, now_ms)
            if isinstance(decided, Transaction):
                outcome.records.append(to_record(decided))
                self._renew(group_of(request.transactional_id), outcome, now_ms)
                outcome.reply(
                    ticket,
                    ProducerIdAnswer(
                        error=TransactionError.NONE,
                        producer_id=decided.producer_id,
                        producer_epoch=decided.producer_epoch,
                    ),
                )
                return outcome
            error = decided
        outcome.reply(ticket, ProducerIdAnswer(error=error))
        return outcome

    def _plain_producer_id(self) -> ProducerIdAnswer:
        producer_id = self._next_producer_id()
        if producer_id is None:
            return ProducerIdAnswer(error=TransactionError.COORDINATOR_LOAD_IN_PROGRESS)
        return ProducerIdAnswer(
            error=TransactionError.NONE, producer_id=producer_id, producer_epoch=0
        )

    def _decide_init(
        self,
        request: InitProducerId,
        transactional_id: str,
        outcome: Outcome,
        now_ms: int,
    ) -> Transaction | TransactionError:
        if self._groups.is_closed(transactional_id):
            return TransactionError.PRODUCER_FENCED
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            return begin_id(request, transactional_id, self._next_producer_id, now_ms)
        if transaction.state.is_prepared:
            return TransactionError.CONCURRENT_TRANSACTIONS
        error = check_claim(transaction, request)
        if error is not TransactionError.NONE:
            return error
        if transaction.state is TransactionState.ONGOING:
            # The epoch of the abort is never given out: the caller comes again and gets the next.
            self._prepare(fence(transaction, now_ms), outcome, now_ms)
            return TransactionError.CONCURRENT_TRANSACTIONS
        return begin_epoch(transaction, request, self._next_producer_id, now_ms)

    def add_partitions(
        self, request: AddPartitions, *, ticket: Ticket[AddPartitionsAnswer], now_ms: int
    ) -> Outcome:
        outcome = Outcome()
        if request.verify_only:
            errors = self._verify(request)
        else:
            error = self._add(request, request.partitions, outcome, now_ms)
            errors = dict.fromkeys(request.partitions, error)
        outcome.reply(
            ticket, AddPartitionsAnswer(transactional_id=request.transactional_id, errors=errors)
        )
        return outcome

    def add_offsets(
        self, request: AddOffsets, *, ticket: Ticket[AddOffsetsAnswer], now_ms: int
    ) -> Outcome:
        outcome = Outcome()
        partition = self._offsets_partition(request.group_id)
        error = self._add(request, frozenset({partition}), outcome, now_ms)
        outcome.reply(ticket, AddOffsetsAnswer(error=error))
        return outcome

    def _add(
        self,
        request: AddPartitions | AddOffsets,
        partitions: frozenset[TopicPartition],
        outcome: Outcome,
        now_ms: int,
    ) -> TransactionError:
        transaction = self._find(request, verify_only=False)
        if isinstance(transaction, TransactionError):
            return transaction
        if transaction.state is TransactionState.ONGOING:
            if partitions <= transaction.partitions:
                return TransactionError.NONE
            start_ms = transaction.start_ms
        else:
            start_ms = now_ms
        outcome.records.append(
            to_record(
                transaction.moved(
                    TransactionState.ONGOING,
                    partitions=transaction.partitions | partitions,
                    start_ms=start_ms,
                    updated_ms=now_ms,
                )
            )
        )
        return TransactionError.NONE

    def _verify(self, request: AddPartitions) -> dict[TopicPartition, TransactionError]:
        transaction = self._find(request, verify_only=True)
        if isinstance(transaction, TransactionError):
            return dict.fromkeys(request.partitions, transaction)
        return {
            partition: TransactionError.NONE
            if partition in transaction.partitions
            else TransactionError.TRANSACTION_ABORTABLE
            for partition in request.partitions
        }

    def _find(
        self, request: AddPartitions | AddOffsets, *, verify_only: bool
    ) -> Transaction | TransactionError:
        """The caller's transaction, if the caller owns it and it is not about to end."""
        if not request.transactional_id:
            return TransactionError.INVALID_REQUEST
        transaction = self._transactions.get(request.transactional_id)
        if transaction is None:
            return TransactionError.INVALID_PRODUCER_ID_MAPPING
        if transaction.state.is_prepared and not verify_only:
            # Before the rest, for its completion may bring the id that the caller uses already.
            return TransactionError.CONCURRENT_TRANSACTIONS
        if transaction.producer_id != request.producer_id:
            return TransactionError.INVALID_PRODUCER_ID_MAPPING
        if transaction.producer_epoch != request.producer_epoch:
            return TransactionError.PRODUCER_FENCED
        if transaction.state.is_prepared:
            return TransactionError.CONCURRENT_TRANSACTIONS
        return transaction

    def end_transaction(
        self, request: EndTransaction, *, ticket: Ticket[ProducerIdAnswer], now_ms: int
    ) -> Outcome:
        """Prepares the end and answers at once; the markers follow."""
        outcome = Outcome()
        transaction = self._transactions.get(request.transactional_id)
        if not request.transactional_id:
            ended: Transaction | TransactionError = TransactionError.INVALID_REQUEST
        elif transaction is None:
            ended = TransactionError.INVALID_PRODUCER_ID_MAPPING
        elif request.commit and group_of(request.transactional_id) is not None:
            # By its group only: all members or none.
            ended = TransactionError.INVALID_TXN_STATE
        else:
            ended = end(transaction, request, self._next_producer_id, now_ms)
        if isinstance(ended, Transaction):
            self._prepare(ended, outcome, now_ms)
            answer = self._next_identity(request, complete(ended, now_ms))
        elif ended is TransactionError.NONE and transaction is not None:
            answer = self._next_identity(request, transaction)
        else:
            assert isinstance(ended, TransactionError)
            answer = ProducerIdAnswer(error=ended)
        outcome.reply(ticket, answer)
        return outcome

    @staticmethod
    def _next_identity(request: EndTransaction, transaction: Transaction) -> ProducerIdAnswer:
        if not request.bumps_epoch:
            return ProducerIdAnswer(error=TransactionError.NONE)
        return ProducerIdAnswer(
            error=TransactionError.NONE,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
        )

    def _prepare(self, prepared: Transaction, outcome: Outcome, now_ms: int) -> None:
        outcome.records.append(to_record(prepared))
        if prepared.partitions:
            outcome.effects.append(PendingMarkers(prepared, self._coordinator_epoch).effect())
        else:
            outcome.records.append(to_record(complete(prepared, now_ms)))

    def markers_written(self, report: MarkersWritten, *, now_ms: int) -> Outcome:
        outcome = Outcome()
        transactional_id = report.transactional_id
        pending = self._pending.get(transactional_id)
        owner = (transactional_id, report.producer_id, report.producer_epoch)
        if pending is None or pending.owner != owner:
            return outcome
        if MarkerResult.FENCED in report.results.values():
            # Whoever fenced us finishes the transaction; going on could only do harm.
            del self._pending[transactional_id]
            self._deadlines.cancel(transactional_id)
            return outcome
        pending.settle(report.results)
        if pending.is_done:
            transaction = self._transactions[transactional_id]
            outcome.records.append(to_record(complete(transaction, now_ms)))
        elif pending.failed and transactional_id not in self._deadlines:
            self._deadlines.set(transactional_id, now_ms + pending.retry_after_ms())
        return outcome

    # --- groups ---------------------------------------------------------------------------

    def commit_group(
        self, request: CommitGroup, *, ticket: Ticket[GroupAnswer], now_ms: int
    ) -> Outcome:
        return self._end_group(self._groups.commit(request, now_ms), ticket, now_ms)

    def abort_group(
        self, request: AbortGroup, *, ticket: Ticket[GroupAnswer], now_ms: int
    ) -> Outcome:
        return self._end_group(self._groups.abort(request, now_ms), ticket, now_ms)

    def _end_group(
        self, decision: GroupDecision, ticket: Ticket[GroupAnswer], now_ms: int
    ) -> Outcome:
        outcome = Outcome(records=list(decision.records))
        for prepared in decision.ending:
            self._prepare(prepared, outcome, now_ms)
        outcome.reply(ticket, decision.answer)
        return outcome

    def renew_group(
        self, request: RenewGroup, *, ticket: Ticket[GroupRenewed], now_ms: int
    ) -> Outcome:
        outcome = Outcome()
        self._renew(request.group_id, outcome, now_ms)
        open_members = self._groups.open_count(request.group_id)
        outcome.reply(ticket, GroupRenewed(open_members=open_members))
        return outcome

    def _renew(self, group_id: str | None, outcome: Outcome, now_ms: int) -> None:
        """Members of a group end together: who has finished waits for who is still at work."""
        if group_id is not None:
            renewed = self._groups.renewed(group_id, now_ms)
            outcome.records += [to_record(each) for each in renewed]

    def describe_group(
        self, request: DescribeGroup, *, ticket: Ticket[GroupDescription]
    ) -> Outcome:
        outcome = Outcome()
        outcome.reply(ticket, self._groups.describe(request.group_id))
        return outcome

    # --- looking --------------------------------------------------------------------------

    def list_transactions(
        self, request: ListTransactions, *, ticket: Ticket[ListTransactionsAnswer], now_ms: int
    ) -> Outcome:
        outcome = Outcome()
        outcome.reply(ticket, list_matching(self._transactions.values(), request, now_ms))
        return outcome

    def describe_transaction(
        self, request: DescribeTransaction, *, ticket: Ticket[TransactionDescription]
    ) -> Outcome:
        outcome = Outcome()
        transaction = self._transactions.get(request.transactional_id)
        outcome.reply(ticket, describe_one(request.transactional_id, transaction))
        return outcome

    # --- the machine ----------------------------------------------------------------------

    def replay(self, record: StateRecord) -> None:
        if is_group_record(record):
            self._groups.replay(record)
            return
        transactional_id, transaction = from_record(record)
        self._pending.pop(transactional_id, None)
        group_id = group_of(transactional_id)
        if group_id is not None:
            self._groups.note_member(group_id, transactional_id, is_known=transaction is not None)
        before = self._transactions.get(transactional_id)
        added = 0 if transaction is None else len(transaction.partitions)
        added -= 0 if before is None else len(before.partitions)
        self.partitions_held.add(transactional_id, added)
        if transaction is None:
            self._transactions.pop(transactional_id, None)
            self._deadlines.cancel(transactional_id)
            return
        self._transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            # Of a group's members the last sign of life counts, of others the start.
            since_ms = transaction.start_ms if group_id is None else transaction.updated_ms
            self._deadlines.set(transactional_id, since_ms + transaction.timeout_ms)
        elif transaction.state.is_prepared:
            self._pending[transactional_id] = PendingMarkers(transaction, self._coordinator_epoch)
            self._deadlines.cancel(transactional_id)
        else:
            kept_ms = self._settings.id_expiration_ms if group_id is None else MEMBER_EXPIRATION_MS
            self._deadlines.set(transactional_id, transaction.updated_ms + kept_ms)

    def lead(self, coordinator_epoch: int) -> None:
        """From now on, under this epoch."""
        self._coordinator_epoch = coordinator_epoch
        for transactional_id in self._pending:
            prepared = self._transactions[transactional_id]
            self._pending[transactional_id] = PendingMarkers(prepared, coordinator_epoch)

    def loaded(self, now_ms: int) -> Outcome:
        """Writes the markers of what was prepared before the crash, all of them again."""
        outcome = Outcome()
        for transactional_id, pending in self._pending.items():
            if pending.is_done:
                prepared = self._transactions[transactional_id]
                outcome.records.append(to_record(complete(prepared, now_ms)))
            else:
                outcome.effects.append(pending.effect())
        for prepared in self._groups.torn(now_ms):
            self._prepare(prepared, outcome, now_ms)
        return outcome

    def next_deadline_ms(self) -> int | None:
        deadlines = (self._deadlines.next_ms(), self._groups.next_deadline_ms())
        return min((each for each in deadlines if each is not None), default=None)

    def on_deadline(self, now_ms: int) -> Outcome:
        outcome = Outcome()
        outcome.records += self._groups.expired(now_ms, DUE_PER_CALL)
        for transactional_id in self._deadlines.pop_due(now_ms, DUE_PER_CALL):
            transaction = self._transactions[transactional_id]
            if transaction.state is TransactionState.ONGOING:
                self._prepare(fence(transaction, now_ms), outcome, now_ms)
            elif transaction.state.is_prepared:
                outcome.effects.append(self._pending[transactional_id].retry())
            else:
                outcome.records.append(to_tombstone(transactional_id))
        return outcome
