"""Transactions: producers' identities, what belongs together, and how it ends."""

import asyncio
from collections import Counter
from typing import Final, NamedTuple

from msgspec.structs import replace

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.calls import Unanswered
from goqueue.model.control import Marker
from goqueue.model.groups.messages import OffsetCommitResult, TxnOffsetCommit
from goqueue.model.names import NodeId, TopicPartition
from goqueue.model.rights import (
    DescribableTransactionalId,
    IdempotentWriter,
    Resource,
    WritableTransactionalId,
)
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
from goqueue.model.transactions.group_names import group_key
from goqueue.model.transactions.messages import (
    AddOffsets,
    AddOffsetsAnswer,
    AddPartitions,
    AddPartitionsAnswer,
    DescribedTransactions,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    ListTransactionsAnswer,
    ProducerIdAnswer,
    TransactionDescription,
    TransactionStatistics,
)
from goqueue.model.transactions.refusals import check
from goqueue.model.transactions.states import TransactionState
from goqueue.service.groups.groups import with_refused
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited

_OPEN: Final = frozenset(
    state.label
    for state in TransactionState
    if state is TransactionState.ONGOING or state.is_prepared
)
# The others are never stored: an expired id is gone, and fencing goes straight to an abort.
_STORED: Final = tuple(
    state.label
    for state in TransactionState
    if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
)


class _Listed(NamedTuple):
    """By name: at which broker; and how many are in each state."""

    found: dict[str, tuple[NodeId, DescribableTransactionalId]]
    states: Counter[str]
    unanswered: list[Unanswered]


class TransactionService:
    """Kafka's clients look for coordinators themselves, and list the transactions of each broker.
    What other doors ask for is done at the coordinator, wherever it is."""

    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._transactions = node.transactions
        self._anywhere = node.transactions_anywhere
        self._access = access

    # --- one producer ---------------------------------------------------------------------

    async def init_producer_id(self, caller: Caller, request: InitProducerId) -> ProducerIdAnswer:
        """A producer without a transactional id only stores each batch once."""
        right: WritableTransactionalId | IdempotentWriter
        if request.transactional_id is None:
            right = self._access.idempotent_writer(caller)
        else:
            right = self._access.writable_transactional_id(caller, request.transactional_id)
        return await self._transactions.init_producer_id(
            right, request, administers_cluster=self._access.administers_cluster(caller)
        )

    async def add_partitions(self, caller: Caller, request: AddPartitions) -> AddPartitionsAnswer:
        """All or none: if one is refused, the others say that they were not tried."""
        right = self._access.writable_transactional_id(caller, request.transactional_id)
        allowed = self._access.writable_partitions(caller, request)
        if isinstance(allowed, frozenset):
            untried = TransactionError.OPERATION_NOT_ATTEMPTED
            errors = dict.fromkeys(request.partitions, untried)
            errors.update(dict.fromkeys(allowed, TransactionError.TOPIC_AUTHORIZATION_FAILED))
            return AddPartitionsAnswer(transactional_id=right, errors=errors)
        return await self._transactions.add_partitions(right, allowed)

    async def add_offsets(self, caller: Caller, request: AddOffsets) -> AddOffsetsAnswer:
        right = self._access.writable_transactional_id(caller, request.transactional_id)
        group = self._access.readable_group(caller, request.group_id)
        return await self._transactions.add_offsets(right, group, request)

    async def commit_offsets(
        self, caller: Caller, transactional_id: str, request: TxnOffsetCommit, *, adds_offsets: bool
    ) -> OffsetCommitResult:
        """Offsets that count once the transaction commits; one answer to each, in order.

        With `adds_offsets` the group joins the transaction here; else the producer has said so.
        """
        right = self._access.writable_transactional_id(caller, transactional_id)
        group = self._access.readable_group(caller, request.group_id)
        commit, refused = self._access.readable_transaction_commit(caller, request)
        if refused and not commit.offsets:
            return with_refused(request, OffsetCommitResult(partitions=()), refused)
        result = await self._transactions.commit_offsets(
            right,
            group,
            commit,
            adds_offsets=adds_offsets,
            administers_cluster=self._access.administers_cluster(caller),
        )
        return with_refused(request, result, refused)

    async def end(self, caller: Caller, request: EndTransaction) -> ProducerIdAnswer:
        right = self._access.writable_transactional_id(caller, request.transactional_id)
        return await self._transactions.end(right, request)

    # Brokers end transactions that way by themselves, and administrators those that hang.
    @audited("transaction.marker", Resource.TOPIC, about="place", is_gathered=True)
    async def write_marker(
        self,
        caller: Caller,
        place: TopicPartition,
        marker: Marker,
        *,
        producer_id: int,
        producer_epoch: int,
        bumps_epoch: bool,
    ) -> None:
        """End a transaction in one partition, as coordinators on other brokers ask for it, and

        administrators with a hanging one.
        """
        right = self._access.marking_cluster(caller)
        await self._transactions.markers.write(
            right,
            place,
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            bumps_epoch=bumps_epoch,
        )

    # --- many that end together -----------------------------------------------------------

    async def commit_group(self, caller: Caller, request: CommitGroup) -> GroupAnswer:
        """The right is that of the common part of the members' transactional ids."""
        right = self._access.writable_transactional_id(caller, group_key(request.group_id))
        return await self._anywhere.commit_group(right, request)

    async def abort_group(self, caller: Caller, request: AbortGroup) -> GroupAnswer:
        right = self._access.writable_transactional_id(caller, group_key(request.group_id))
        return await self._anywhere.abort_group(right, request)

    async def renew_group(self, caller: Caller, group_id: str) -> GroupRenewed:
        right = self._access.writable_transactional_id(caller, group_key(group_id))
        return await self._anywhere.renew_group(right, RenewGroup(group_id=group_id))

    async def describe_group(self, caller: Caller, group_id: str) -> GroupDescription:
        right = self._access.describable_transactional_id(caller, group_key(group_id))
        return await self._anywhere.describe_group(right, DescribeGroup(group_id=group_id))

    # --- looking --------------------------------------------------------------------------

    async def list(self, caller: Caller, request: ListTransactions) -> ListTransactionsAnswer:
        seen = self._access.describable_transactional_ids(caller)
        return await self._transactions.list(seen, self._within(caller, request))

    def _within(self, caller: Caller, request: ListTransactions) -> ListTransactions:
        if not request.id_pattern:
            return request
        return replace(request, id_pattern=self._access.pattern(caller, request.id_pattern))

    async def describe(self, caller: Caller, transactional_id: str) -> TransactionDescription:
        """Without the topics that the caller may not see."""
        right = self._access.describable_transactional_id(caller, transactional_id)
        return self._visible(caller, await self._transactions.describe(right))

    async def describe_listed(
        self, caller: Caller, request: ListTransactions, limit: int
    ) -> DescribedTransactions:
        """Of all brokers the first by name, each as `describe` shows it. An error is raised."""
        listed = await self._listed(caller, request)
        first = sorted(listed.found.values(), key=lambda each: each[1])[:limit]
        told = await self._anywhere.describe_all(first)
        described = [each for found in told.answers.values() for each in found]
        described.sort(key=lambda each: each.transactional_id)
        return DescribedTransactions(
            [self._visible(caller, each) for each in described],
            len(listed.found),
            listed.unanswered + told.unanswered,
        )

    async def _listed(self, caller: Caller, request: ListTransactions) -> _Listed:
        """What the caller may see, and where it was listed."""
        seen = self._access.describable_transactional_ids(caller)
        told = await self._anywhere.list_all(self._within(caller, request))
        found: dict[str, tuple[NodeId, DescribableTransactionalId]] = {}
        states: Counter[str] = Counter()
        for node, answer in told.answers.items():
            check(answer.error)
            for each in answer.transactions:
                name = each.transactional_id
                if name in seen and name not in found:
                    right = self._access.describable_transactional_id(caller, name)
                    found[name] = node, right
                    states[each.state] += 1
        return _Listed(found, states, told.unanswered)

    def _visible(self, caller: Caller, found: TransactionDescription) -> TransactionDescription:
        places = (each for each in found.partitions if self._access.sees_topic(caller, each.topic))
        return replace(found, partitions=frozenset(places))

    async def statistics(self, caller: Caller) -> TransactionStatistics:
        """Of the transactions that the caller may see."""
        listed, still_open = await asyncio.gather(
            self._listed(caller, ListTransactions()),
            self._listed(caller, ListTransactions(states=_OPEN)),
        )
        states = listed.states
        told = await self._anywhere.describe_all(still_open.found.values())
        began = [
            each.start_ms for found in told.answers.values() for each in found if each.start_ms >= 0
        ]
        return TransactionStatistics(
            total=len(listed.found),
            by_state={label: states[label] for label in _STORED},
            open=sum(states[label] for label in _OPEN),
            oldest_open_ms=max(0, self._node.clock_ms() - min(began)) if began else None,
            unanswered=listed.unanswered,
        )
