"""GET /transactions and /transactions/stats."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from msgspec import Meta

from goqueue.broker.hosted_clients.producers import check
from goqueue.broker.node import Node
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.transactions.fields import (
    ID_MAX_LENGTH,
    PRODUCER_ID_MAX,
    TransactionStatus,
    show_transaction,
)
from goqueue.model.settings import INT32_MAX
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.messages import (
    DescribeTransaction,
    ListedTransaction,
    ListTransactions,
)
from goqueue.model.transactions.states import TransactionState

_TAGS: Final = ["Transactions"]
LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1_000
_ANY: Final = -1


class TransactionList(msgspec.Struct, frozen=True, rename="camel"):
    transactions: list[TransactionStatus]
    total: Annotated[int, Meta(description="How many there are, if the list was cut.")]


class TransactionStats(msgspec.Struct, frozen=True, rename="camel"):
    total: int
    by_state: dict[str, int]
    open: Annotated[int, Meta(description="Ongoing, or being ended.")]
    oldest_open_ms: Annotated[
        int | None, Meta(description="Readers of committed messages may wait for this one.")
    ]


@get("/transactions", tags=_TAGS, responses=errors(400, 422))
async def list_transactions(
    broker: NamedDependency[Node],
    in_state: Annotated[
        str | None,
        QueryParameter(
            name="state",
            pattern="^[A-Za-z]+$",
            description="Only those in this state, such as Ongoing.",
        ),
    ] = None,
    producer_id: Annotated[
        int,
        QueryParameter(
            name="producerId", ge=_ANY, le=PRODUCER_ID_MAX, description="-1 stands for any."
        ),
    ] = _ANY,
    running_longer_than: Annotated[
        int,
        QueryParameter(
            name="runningLongerThan",
            ge=_ANY,
            le=INT32_MAX,
            description="Only those open for more milliseconds than this; -1 for all.",
        ),
    ] = _ANY,
    pattern: Annotated[
        str | None,
        QueryParameter(
            max_length=ID_MAX_LENGTH,
            description="Only transactional ids that match this RE2 expression as a whole.",
        ),
    ] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=LIMIT_MAX)] = LIMIT_DEFAULT,
) -> TransactionList:
    """List transactional ids with their last transaction, by name."""
    request = ListTransactions(
        states=frozenset() if in_state is None else frozenset({in_state}),
        producer_ids=frozenset() if producer_id == _ANY else frozenset({producer_id}),
        running_longer_than_ms=running_longer_than,
        id_pattern=pattern or None,
    )
    listed = sorted(await _list(broker, request), key=lambda each: each.transactional_id)
    described = [
        await broker.transactions.describe(
            DescribeTransaction(transactional_id=each.transactional_id)
        )
        for each in listed[:limit]
    ]
    return TransactionList(
        [show_transaction(each) for each in described if each.error is TransactionError.NONE],
        len(listed),
    )


@get("/transactions/stats", tags=_TAGS, responses=errors(400))
async def transaction_stats(broker: NamedDependency[Node]) -> TransactionStats:
    """How many transactions there are in each state."""
    listed = await _list(broker, ListTransactions())
    states = Counter(each.state for each in listed)
    open_ids = [each.transactional_id for each in listed if each.state in _OPEN]
    starts = [
        (await broker.transactions.describe(DescribeTransaction(transactional_id=each))).start_ms
        for each in open_ids
    ]
    begun = [start_ms for start_ms in starts if start_ms >= 0]
    return TransactionStats(
        total=len(listed),
        by_state={label: states[label] for label in _STORED},
        open=len(open_ids),
        oldest_open_ms=max(0, broker.clock_ms() - min(begun)) if begun else None,
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (list_transactions, transaction_stats)

# The others are never stored: an expired id is gone, and fencing goes straight to an abort.
_STORED: Final = tuple(
    state.label
    for state in TransactionState
    if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
)
_OPEN: Final = frozenset(
    state.label
    for state in TransactionState
    if state is TransactionState.ONGOING or state.is_prepared
)


async def _list(broker: Node, request: ListTransactions) -> list[ListedTransaction]:
    found: list[ListedTransaction] = []
    for answer in await broker.transactions.list(request):
        check(answer.error)
        found += answer.transactions
    return found
