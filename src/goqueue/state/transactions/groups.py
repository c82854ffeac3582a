"""Groups of transactions: what each committed last, and who belongs to it.

The record of a group is the decision: it names the members that are committed. Their own records
follow it in the same write; what a torn write lost of them is made up for after loading.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.group_messages import (
    AbortGroup,
    CommitGroup,
    GroupAnswer,
    GroupDescription,
    GroupMember,
    GroupOutcome,
    OpenMember,
)
from goqueue.model.transactions.group_names import group_of
from goqueue.model.transactions.states import TransactionState
from goqueue.state.machine import Deadlines, StateRecord
from goqueue.state.transactions.ending import commit_member, fence
from goqueue.state.transactions.transaction import Transaction

# Members come back with every batch of their group. Those of groups that are done go soon, for a
# group may have thousands.
MEMBER_EXPIRATION_MS: Final = 3_600_000

# A time-out begins anew only when a quarter of it is over: so a group of many members that come one
# after another writes few records for each.
RENEWALS_PER_TIMEOUT: Final = 4

# The sequence of a group that was closed without a commit.
NOTHING_COMMITTED: Final = -1

_OPEN: Final = (TransactionState.EMPTY, TransactionState.ONGOING)


class TransactionGroup(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="group"):
    group_id: str
    sequence: int
    committed_ms: int
    keep_ms: int
    members: tuple[GroupMember, ...]
    is_closed: bool = False


class _Key(msgspec.Struct, frozen=True, array_like=True, tag="transaction-group"):
    group_id: str


_ENCODER: Final = msgspec.msgpack.Encoder()
_KEY_DECODER: Final = msgspec.msgpack.Decoder(_Key)
_DECODER: Final = msgspec.msgpack.Decoder(TransactionGroup)
# An array of two, and the tag.
_KEY_START: Final = _ENCODER.encode(_Key(""))[:-1]


def is_group_record(record: StateRecord) -> bool:
    return record.key.startswith(_KEY_START)


def to_record(group: TransactionGroup) -> StateRecord:
    return StateRecord(_ENCODER.encode(_Key(group.group_id)), _ENCODER.encode(group))


def to_tombstone(group_id: str) -> StateRecord:
    return StateRecord(_ENCODER.encode(_Key(group_id)), None)


class GroupDecision(NamedTuple):
    answer: GroupAnswer
    # Prepared to commit or abort; their records follow `records`.
    ending: Sequence[Transaction] = ()
    records: Sequence[StateRecord] = ()


class TransactionGroups:
    """The groups of one coordinator, beside the transactions that it owns."""

    def __init__(self, transactions: Mapping[str, Transaction]) -> None:
        self._transactions = transactions
        self._groups: dict[str, TransactionGroup] = {}
        self._members: dict[str, set[str]] = {}
        self._deadlines: Deadlines[str] = Deadlines()

    # --- deciding -------------------------------------------------------------------------

    def commit(self, request: CommitGroup, now_ms: int) -> GroupDecision:
        """All named members or, if one of them was ended meanwhile, none."""
        group_id, members = request.group_id, tuple(dict.fromkeys(request.members))
        if self._is_committed(group_id, request.sequence):
            # Run again by somebody who did not know: what it wrote is not wanted.
            return _decision(
                GroupOutcome.ALREADY_COMMITTED, self._aborting(group_id, members, now_ms)
            )
        for member in members:
            error = self._check(group_id, member)
            if error is not TransactionError.NONE:
                return GroupDecision(GroupAnswer(error=error, refused=member))
        group = TransactionGroup(
            group_id=group_id,
            sequence=request.sequence,
            committed_ms=now_ms,
            keep_ms=request.keep_ms,
            members=members,
            is_closed=request.closes,
        )
        # Task attempts that failed or came second.
        others = {_identity(each) for each in self._open(group_id)} - set(members)
        ending = [
            *self._committing(members, now_ms),
            *self._aborting(group_id, others, now_ms),
        ]
        return _decision(GroupOutcome.COMMITTED, ending, to_record(group))

    def abort(self, request: AbortGroup, now_ms: int) -> GroupDecision:
        group_id, members = request.group_id, request.members
        if not self._is_committed(group_id, request.sequence):
            ending = self._aborting(group_id, members, now_ms)
            records = [to_record(self._closed(request, now_ms))] if request.closes else []
            return _decision(GroupOutcome.ABORTED, ending, *records)
        return _decision(
            GroupOutcome.ALREADY_COMMITTED, self._aborting(group_id, members or (), now_ms)
        )

    def renewed(self, group_id: str, now_ms: int) -> list[Transaction]:
        """Open members whose time-out begins anew."""
        return [
            each.moved(TransactionState.ONGOING, updated_ms=now_ms)
            for each in self._members_of(group_id)
            if each.state is TransactionState.ONGOING
            and now_ms - each.updated_ms >= each.timeout_ms // RENEWALS_PER_TIMEOUT
        ]

    def open_count(self, group_id: str) -> int:
        return sum(each.state is TransactionState.ONGOING for each in self._members_of(group_id))

    def _closed(self, request: AbortGroup, now_ms: int) -> TransactionGroup:
        known = self._groups.get(request.group_id)
        return TransactionGroup(
            group_id=request.group_id,
            sequence=NOTHING_COMMITTED if known is None else known.sequence,
            committed_ms=now_ms,
            keep_ms=request.keep_ms,
            members=() if known is None else known.members,
            is_closed=True,
        )

    def is_closed(self, transactional_id: str) -> bool:
        """Whether it would be a late member of a group that takes none any more."""
        group_id = group_of(transactional_id)
        group = None if group_id is None else self._groups.get(group_id)
        return group is not None and group.is_closed

    def _is_committed(self, group_id: str, sequence: int) -> bool:
        group = self._groups.get(group_id)
        return group is not None and sequence <= group.sequence

    def _check(self, group_id: str, member: GroupMember) -> TransactionError:
        """Whether a named member can still be committed."""
        if group_of(member.transactional_id) != group_id:
            return TransactionError.INVALID_REQUEST
        transaction = self._transactions.get(member.transactional_id)
        if transaction is None or transaction.producer_id != member.producer_id:
            return TransactionError.INVALID_PRODUCER_ID_MAPPING
        if transaction.producer_epoch != member.producer_epoch:
            return TransactionError.PRODUCER_FENCED
        if transaction.state not in _OPEN:
            return TransactionError.INVALID_TXN_STATE
        return TransactionError.NONE

    def _committing(self, members: Iterable[GroupMember], now_ms: int) -> Iterator[Transaction]:
        """The named members, prepared.

        One that wrote nothing has nothing to commit, but is fenced: what it wrote later would be
        taken for a part of this commit that did not reach the log.
        """
        for member in members:
            transaction = self._transactions.get(member.transactional_id)
            if transaction is None or _identity(transaction) != member:
                continue
            if transaction.state is TransactionState.ONGOING:
                yield commit_member(transaction, now_ms)
            elif transaction.state is TransactionState.EMPTY:
                yield fence(transaction, now_ms)

    def _aborting(
        self, group_id: str, members: Collection[GroupMember] | None, now_ms: int
    ) -> list[Transaction]:
        """Open members, fenced: the named ones that are still the same, or all of the group."""
        named = None if members is None else frozenset(members)
        return [
            fence(transaction, now_ms)
            for transaction in self._open(group_id)
            if named is None or _identity(transaction) in named
        ]

    def describe(self, group_id: str) -> GroupDescription:
        group = self._groups.get(group_id)
        if group is not None and group.sequence == NOTHING_COMMITTED:
            group = None
        return GroupDescription(
            group_id=group_id,
            last_sequence=None if group is None else group.sequence,
            committed_ms=None if group is None else group.committed_ms,
            open_members=tuple(
                OpenMember(member=_identity(each), state=each.state.label, start_ms=each.start_ms)
                for each in self._members_of(group_id)
                if each.state is TransactionState.ONGOING or each.state.is_prepared
            ),
        )

    def _open(self, group_id: str) -> list[Transaction]:
        return [each for each in self._members_of(group_id) if each.state in _OPEN]

    def _members_of(self, group_id: str) -> list[Transaction]:
        return [self._transactions[name] for name in sorted(self._members.get(group_id, ()))]

    # --- the durable state ----------------------------------------------------------------

    def replay(self, record: StateRecord) -> None:
        group_id = _KEY_DECODER.decode(record.key).group_id
        if record.value is None:
            self._groups.pop(group_id, None)
            self._deadlines.cancel(group_id)
            return
        group = self._groups[group_id] = _DECODER.decode(record.value)
        self._deadlines.set(group_id, group.committed_ms + group.keep_ms)

    def note_member(self, group_id: str, transactional_id: str, *, is_known: bool) -> None:
        members = self._members.setdefault(group_id, set())
        if is_known:
            members.add(transactional_id)
            return
        members.discard(transactional_id)
        if not members:
            del self._members[group_id]

    def torn(self, now_ms: int) -> Iterator[Transaction]:
        """Members of decided commits whose own record did not reach the log."""
        for group in self._groups.values():
            yield from self._committing(group.members, now_ms)

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def expired(self, now_ms: int, limit: int) -> list[StateRecord]:
        return [to_tombstone(group_id) for group_id in self._deadlines.pop_due(now_ms, limit)]


def _decision(
    outcome: GroupOutcome, ending: Sequence[Transaction], *records: StateRecord
) -> GroupDecision:
    answer = GroupAnswer(
        error=TransactionError.NONE,
        outcome=outcome,
        ending=tuple(each.transactional_id for each in ending if each.partitions),
    )
    return GroupDecision(answer, ending, records)


def _identity(transaction: Transaction) -> GroupMember:
    return GroupMember(
        transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
    )
