"""Transactions are looked at, and those of a group ended, at their coordinators; those of all
brokers are listed."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

import msgspec

from goqueue.broker.calls.calls import (
    GATHER_TIMEOUT_S,
    Calls,
    Gathered,
    before_anything_is_done,
)
from goqueue.broker.own_grants import OwnWork, own_transactional_ids
from goqueue.broker.transactions.transactions import Transactions
from goqueue.model.calls import Method
from goqueue.model.errors import GoQueueError
from goqueue.model.names import NodeId
from goqueue.model.rights import DescribableTransactionalId, WritableTransactionalId
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
from goqueue.model.transactions.messages import (
    ListTransactions,
    ListTransactionsAnswer,
    TransactionDescription,
)


class Commit(msgspec.Struct, frozen=True):
    group: WritableTransactionalId
    wanted: CommitGroup


class Abort(msgspec.Struct, frozen=True):
    group: WritableTransactionalId
    wanted: AbortGroup


class Renew(msgspec.Struct, frozen=True):
    group: WritableTransactionalId
    wanted: RenewGroup


class Look(msgspec.Struct, frozen=True):
    group: DescribableTransactionalId
    wanted: DescribeGroup


class LookAtSome(msgspec.Struct, frozen=True):
    transactional_ids: list[DescribableTransactionalId]


# A sequence that was committed is known.
COMMIT_GROUP: Final = Method("transactions.commit_group", Commit, GroupAnswer, is_repeatable=True)
ABORT_GROUP: Final = Method("transactions.abort_group", Abort, GroupAnswer, is_repeatable=True)
RENEW_GROUP: Final = Method("transactions.renew_group", Renew, GroupRenewed, is_repeatable=True)
DESCRIBE_GROUP: Final = Method(
    "transactions.describe_group", Look, GroupDescription, is_repeatable=True
)
LIST: Final = Method(
    "transactions.list", ListTransactions, ListTransactionsAnswer, is_repeatable=True
)
DESCRIBE: Final = Method(
    "transactions.describe", LookAtSome, list[TransactionDescription], is_repeatable=True
)

Q = TypeVar("Q", bound=Commit | Abort | Renew | Look)
R = TypeVar("R")


class TransactionsAnywhere:
    def __init__(self, transactions: Transactions, calls: Calls) -> None:
        self._transactions = transactions
        self._calls = calls
        self._serve(
            COMMIT_GROUP, lambda asked: transactions.commit_group(asked.group, asked.wanted)
        )
        self._serve(ABORT_GROUP, lambda asked: transactions.abort_group(asked.group, asked.wanted))
        self._serve(RENEW_GROUP, lambda asked: transactions.renew_group(asked.group, asked.wanted))
        self._serve(
            DESCRIBE_GROUP, lambda asked: transactions.describe_group(asked.group, asked.wanted)
        )
        calls.serve(LIST, self._list_here)
        calls.serve(DESCRIBE, self._describe_here)

    def _serve(self, method: Method[Q, R], run: Callable[[Q], Awaitable[R]]) -> None:
        async def at_coordinator(request: Q) -> R:
            with before_anything_is_done():
                await self._transactions.state.shard_for(request.group)
            return await run(request)

        self._calls.serve(method, at_coordinator)

    async def _ask(self, method: Method[Q, R], request: Q) -> R:
        place = await self._transactions.coordinator(request.group)
        return await self._calls.ask(method, place, request)

    # --- many that end together -----------------------------------------------------------

    async def commit_group(
        self, group: WritableTransactionalId, request: CommitGroup
    ) -> GroupAnswer:
        return await self._ask(COMMIT_GROUP, Commit(group, request))

    async def abort_group(self, group: WritableTransactionalId, request: AbortGroup) -> GroupAnswer:
        return await self._ask(ABORT_GROUP, Abort(group, request))

    async def renew_group(
        self, group: WritableTransactionalId, request: RenewGroup
    ) -> GroupRenewed:
        return await self._ask(RENEW_GROUP, Renew(group, request))

    async def describe_group(
        self, group: DescribableTransactionalId, request: DescribeGroup
    ) -> GroupDescription:
        if not self._transactions.state.exists:
            return await self._transactions.describe_group(group, request)
        return await self._ask(DESCRIBE_GROUP, Look(group, request))

    # --- all of them ----------------------------------------------------------------------

    async def list_all(self, request: ListTransactions) -> Gathered[ListTransactionsAnswer]:
        """Of all brokers, whoever may see them."""
        return await self._calls.gather(LIST, request)

    async def _list_here(self, request: ListTransactions) -> ListTransactionsAnswer:
        return await self._transactions.list(own_transactional_ids(OwnWork.LISTS), request)

    async def describe_all(
        self, listed: Iterable[tuple[NodeId, DescribableTransactionalId]]
    ) -> Gathered[list[TransactionDescription]]:
        """Of each, at the broker that listed it; those that went meanwhile are left out."""
        by_node: dict[NodeId, list[DescribableTransactionalId]] = defaultdict(list)
        for node, transactional_id in listed:
            by_node[node].append(transactional_id)
        gathered: Gathered[list[TransactionDescription]] = Gathered({}, {})

        async def ask(node: NodeId, ids: list[DescribableTransactionalId]) -> None:
            try:
                gathered.answers[node] = await self._calls.ask_broker(
                    DESCRIBE, node, LookAtSome(ids), timeout_s=GATHER_TIMEOUT_S
                )
            except GoQueueError as error:
                gathered.failures[node] = error

        await asyncio.gather(*(ask(*each) for each in by_node.items()))
        return gathered

    async def _describe_here(self, asked: LookAtSome) -> list[TransactionDescription]:
        described = [await self._transactions.describe(each) for each in asked.transactional_ids]
        return [each for each in described if each.error is TransactionError.NONE]
