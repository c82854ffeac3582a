"""/transactions/groups: transactions of many producers that end together."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.doors.http.transactions.fields import PRODUCER_ID_MAX, Producer
from goqueue.doors.http.whole_numbers import DurationMs, whole
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.group_messages import (
    KEEP_MS_DEFAULT,
    AbortGroup,
    CommitGroup,
    GroupAnswer,
    GroupMember,
    GroupOutcome,
)
from goqueue.model.transactions.group_names import GROUP_ID_PATTERN
from goqueue.model.transactions.refusals import TransactionRefused
from goqueue.model.transactions.states import NOT_STARTED_MS
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

_TAGS: Final = ["Transactions"]
_ERRORS: Final = errors(400, 403, 404, 409, 413, 415, 422)
# The decision is one record: at some 100 bytes for each member, below a batch of 1 MiB.
MEMBERS_MAX: Final = 10_000

GroupInPath = Annotated[
    str,
    PathParameter(
        pattern=GROUP_ID_PATTERN,
        description="The part `<group>` of its members' ids, `goqueue.group/<group>/<member>`.",
    ),
]
GroupSequence = Annotated[
    float,
    Meta(
        ge=0,
        le=PRODUCER_ID_MAX,
        multiple_of=1,
        description="Counts what the group commits, such as the batches of a query.",
    ),
]
Members = Annotated[list[Producer], Meta(max_length=MEMBERS_MAX)]
Closing = Annotated[bool, Meta(description="Whether members that come later are refused.")]


class CommitMembers(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    sequence: GroupSequence
    members: Annotated[Members, Meta(description="All others of the group are aborted.")]
    keep_ms: Annotated[
        DurationMs, Meta(description="How long the sequence is remembered; a year by default.")
    ] = KEEP_MS_DEFAULT
    close: Closing = False


class AbortMembers(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    sequence: GroupSequence
    members: Annotated[
        Members | None, Meta(description="Without it: all that are open in the group.")
    ] = None
    close: Closing = False
    keep_ms: Annotated[
        DurationMs, Meta(description="How long it stays closed; a year by default.")
    ] = KEEP_MS_DEFAULT


class TransactionGroupEnd(msgspec.Struct, frozen=True, rename="camel"):
    group: str
    sequence: int
    outcome: Annotated[
        GroupOutcome, Meta(description="alreadyCommitted: by an earlier request; now nothing was.")
    ]


class TransactionGroupRenewal(msgspec.Struct, frozen=True, rename="camel"):
    group: str
    open_members: int


class OpenGroupMember(msgspec.Struct, frozen=True, rename="camel"):
    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    started_at: Annotated[int | None, Meta(description="Milliseconds since 1970 (UTC).")]


class TransactionGroupStatus(msgspec.Struct, frozen=True, rename="camel"):
    group: str
    last_committed: Annotated[
        int | None, Meta(description="The highest sequence; null if there is none, or none known.")
    ]
    committed_at: Annotated[int | None, Meta(description="Milliseconds since 1970 (UTC).")]
    open_members: list[OpenGroupMember]


@post(
    "/transactions/groups/{group:str}/commit",
    tags=_TAGS,
    status_code=200,
    responses=_ERRORS,
    opt={"needs": (Need(Resource.TRANSACTIONAL_ID, Verb.WRITE, names="group"),)},
)
async def commit_transaction_group(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    group: GroupInPath,
    data: JSONBody[CommitMembers],
) -> TransactionGroupEnd:
    """Commit the transactions of all named members at once, and remember the sequence with them.

    If one of them timed out, was aborted or replaced, nothing is committed (409). A sequence that
    is not above the last one is not committed again; repeating a request is safe.
    """
    answer = await service.transactions.commit_group(
        caller,
        CommitGroup(
            group_id=group,
            sequence=whole(data.sequence),
            members=tuple(GroupMember(*member.identity) for member in data.members),
            keep_ms=whole(data.keep_ms),
            closes=data.close,
        ),
    )
    return _show(group, whole(data.sequence), answer)


@post(
    "/transactions/groups/{group:str}/abort",
    tags=_TAGS,
    status_code=200,
    responses=_ERRORS,
    opt={"needs": (Need(Resource.TRANSACTIONAL_ID, Verb.WRITE, names="group"),)},
)
async def abort_transaction_group(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    group: GroupInPath,
    data: JSONBody[AbortMembers],
) -> TransactionGroupEnd:
    """Abort what is open in the group. What is committed stays so, and is answered as such."""
    members = data.members
    answer = await service.transactions.abort_group(
        caller,
        AbortGroup(
            group_id=group,
            sequence=whole(data.sequence),
            members=None if members is None else tuple(GroupMember(*m.identity) for m in members),
            closes=data.close,
            keep_ms=whole(data.keep_ms),
        ),
    )
    return _show(group, whole(data.sequence), answer)


@post(
    "/transactions/groups/{group:str}/renew",
    tags=_TAGS,
    status_code=200,
    responses=errors(400, 403, 404),
    opt={"needs": (Need(Resource.TRANSACTIONAL_ID, Verb.WRITE, names="group"),)},
)
async def renew_transaction_group(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    group: GroupInPath,
) -> TransactionGroupRenewal:
    """Say that the group is alive: the time-outs of its open members begin anew.

    So does every new member. Send it several times within a time-out, from anywhere in the group.
    """
    renewed = await service.transactions.renew_group(caller, group)
    return TransactionGroupRenewal(group, renewed.open_members)


@get(
    "/transactions/groups/{group:str}",
    tags=_TAGS,
    responses=errors(400, 403, 404),
    opt={"needs": (Need(Resource.TRANSACTIONAL_ID, Verb.DESCRIBE, names="group"),)},
)
async def describe_transaction_group(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    group: GroupInPath,
) -> TransactionGroupStatus:
    """What the group committed last, and which of its members have something open."""
    found = await service.transactions.describe_group(caller, group)
    return TransactionGroupStatus(
        group=group,
        last_committed=found.last_sequence,
        committed_at=found.committed_ms,
        open_members=[
            OpenGroupMember(
                *each.member,
                state=each.state,
                started_at=None if each.start_ms == NOT_STARTED_MS else each.start_ms,
            )
            for each in found.open_members
        ],
    )


def _show(group: str, sequence: int, answer: GroupAnswer) -> TransactionGroupEnd:
    if answer.outcome is None:
        raise _refusal(answer)
    return TransactionGroupEnd(group, sequence, answer.outcome)


def _refusal(answer: GroupAnswer) -> TransactionRefused:
    assert answer.refused is not None, "an error is about a member"
    if answer.error is TransactionError.INVALID_REQUEST:
        why = "is not a member of this group"
    elif answer.error is TransactionError.INVALID_TXN_STATE:
        why = "has been ended already"
    else:
        why = f"cannot be committed: {TransactionRefused(answer.error).message}"
    return TransactionRefused(
        answer.error,
        f"nothing was committed: {answer.refused.transactional_id} {why}; run the batch again",
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (
    commit_transaction_group,
    abort_transaction_group,
    renew_transaction_group,
    describe_transaction_group,
)
