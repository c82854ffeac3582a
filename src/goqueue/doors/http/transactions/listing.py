"""GET /transactions and /transactions/stats."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.doors.http.transactions.fields import (
    ID_MAX_LENGTH,
    PRODUCER_ID_MAX,
    TransactionStatus,
    show_transaction,
)
from goqueue.doors.http.unanswered import UnansweredBrokers, show_unanswered
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.model.settings import INT32_MAX
from goqueue.model.transactions.messages import ListTransactions
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need, Refused

_TAGS: Final = ["Transactions"]
_SEES: Final = Need(Resource.TRANSACTIONAL_ID, Verb.DESCRIBE, refused=Refused.LEFT_OUT)
LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1_000
_ANY: Final = -1


class TransactionList(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    transactions: list[TransactionStatus]
    total: Annotated[int, Meta(description="How many there are, if the list was cut.")]
    unanswered: UnansweredBrokers = []


class TransactionStats(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    total: int
    by_state: dict[str, int]
    open: Annotated[int, Meta(description="Ongoing, or being ended.")]
    oldest_open_ms: Annotated[
        int | None, Meta(description="Readers of committed messages may wait for this one.")
    ]
    unanswered: UnansweredBrokers = []


@get(
    "/transactions",
    tags=_TAGS,
    responses=errors(400, 422),
    opt={"needs": (_SEES, Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.LEFT_OUT))},
)
async def list_transactions(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
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
    found = await service.transactions.describe_listed(caller, request, limit)
    return TransactionList(
        [show_transaction(each) for each in found.transactions],
        found.total,
        show_unanswered(found.unanswered),
    )


@get(
    "/transactions/stats",
    tags=_TAGS,
    responses=errors(400),
    opt={"needs": (_SEES,)},
)
async def transaction_stats(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> TransactionStats:
    """How many transactions there are in each state."""
    found = await service.transactions.statistics(caller)
    return TransactionStats(
        total=found.total,
        by_state=dict(found.by_state),
        open=found.open,
        oldest_open_ms=found.oldest_open_ms,
        unanswered=show_unanswered(found.unanswered),
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (list_transactions, transaction_stats)
