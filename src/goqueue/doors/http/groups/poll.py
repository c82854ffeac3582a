"""/groups/{group}/receive: read as a member of the group, or lease messages of a queue.

`GET …/poll` does the same. It came first, but a GET should change nothing: a web page of another
site, or a browser that fetches a link ahead, would take messages that nobody reads. So it is
answered only to programs and to pages of this broker.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec
from litestar import Request, get, post
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.params import JSONBody, QueryParameter
from msgspec import Meta

from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.groups.fields import (
    GROUP_NAME_MAX_LENGTH,
    MEMBER_ID_MAX_LENGTH,
    OFFSET_MAX,
    AnswerNumber,
    GroupInPath,
    MemberId,
    ShownAnswer,
    TopicPartitions,
    show_partitions,
)
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.payloads import ByteEncoding, Encoding
from goqueue.doors.http.publishing import NamedHeader
from goqueue.doors.http.queues import DELAY_MAX_MS, Milliseconds, QueuedMessage, show_delivery
from goqueue.doors.http.stored_message import show_record
from goqueue.doors.http.topics import TOPIC_NAME_PATTERN
from goqueue.doors.http.whole_numbers import whole
from goqueue.doors.web.long_poll import LONG_POLL_MAX_MS, or_gone
from goqueue.doors.web.site_guard import CROSS_SITE, is_from_own_page
from goqueue.model.caller import Caller
from goqueue.model.groups.hosted_members import PolledRecord
from goqueue.model.names import TOPIC_NAME_MAX_LENGTH
from goqueue.model.queues.receiving import Receive
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

MESSAGES_DEFAULT: Final = 100
MESSAGES_MAX: Final = 10_000
# A queue's messages are leased one by one.
LEASED_MESSAGES_MAX: Final = 1_000


class PolledMessage(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: str | None
    key_encoding: ByteEncoding
    value: Any
    encoding: Encoding
    headers: list[NamedHeader]


class MemberPoll(msgspec.Struct, frozen=True, rename="camel"):
    messages: list[PolledMessage]
    answer: ShownAnswer
    member_epoch: Annotated[int, Meta(description="The generation, or the member's epoch.")]
    revoke: Annotated[
        list[TopicPartitions],
        Meta(description="A cooperative member gives these up and confirms with POST …/revoke."),
    ]


class QueuePoll(msgspec.Struct, frozen=True):
    messages: list[QueuedMessage]


class ReceiveMessages(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Either `memberId` or `topic` is needed."""

    member_id: Annotated[
        MemberId | None, Meta(description="Read as this member, in offset order.")
    ] = None
    topic: Annotated[
        Annotated[
            str, Meta(min_length=1, max_length=TOPIC_NAME_MAX_LENGTH, pattern=TOPIC_NAME_PATTERN)
        ]
        | None,
        Meta(description="Instead of a member: lease messages of this topic as a queue."),
    ] = None
    max: Annotated[
        float,
        Meta(ge=1, le=MESSAGES_MAX, multiple_of=1, description="Messages at most."),
    ] = MESSAGES_DEFAULT
    timeout: Annotated[
        float,
        Meta(
            ge=0,
            le=LONG_POLL_MAX_MS,
            multiple_of=1,
            description="Milliseconds to wait for a message if there is none yet.",
        ),
    ] = 0
    encoding: Annotated[Encoding, Meta(description="As for reading a partition.")] = "text"
    after: Annotated[
        AnswerNumber | None,
        Meta(
            description="Member only: `answer` of the last read that arrived, or of the join; "
            "what was lost since is delivered again."
        ),
    ] = None
    consumer: Annotated[
        Annotated[str, Meta(min_length=1, max_length=GROUP_NAME_MAX_LENGTH)] | None,
        Meta(description="Queue only: who leases; in-flight limits are per consumer."),
    ] = None
    visibility: Annotated[
        Milliseconds,
        Meta(
            description="Queue only: milliseconds until others may get the messages; 0 leaves it "
            "to the topic's settings."
        ),
    ] = 0
    start: Annotated[
        Literal["earliest", "latest"] | None,
        Meta(description="Queue only: where the group's first read begins."),
    ] = None


# As a member, the topics are those that the group has given it.
_READING: Final = {
    "needs": (
        Need(Resource.GROUP, Verb.READ, names="group"),
        Need(Resource.TOPIC, Verb.READ, names="topic"),
    )
}
_ERRORS: Final = (400, 403, 404, 409, 416, 422)


@post(
    "/groups/{group:str}/receive",
    tags=["Groups"],
    status_code=200,
    responses=errors(*_ERRORS, 413, 415),
    opt=_READING,
)
async def receive(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    closing: NamedDependency[asyncio.Event],
    request: Request[Any, Any, Any],
    group: GroupInPath,
    data: JSONBody[ReceiveMessages],
) -> MemberPoll | QueuePoll:
    """Messages for a member of the group, or of a topic read as a queue.

    A member's read is a heartbeat, too. 409 `rebalance_in_progress`: commit, and join again.
    """
    return await _read(service, caller, group, data, request, closing)


async def own_pages_only(
    connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler
) -> None:
    if connection.scope.get("is_head"):
        raise Refusal(405, "method_not_allowed", "HEAD would take messages that nobody sees")
    if not is_from_own_page(connection.scope["headers"]):
        raise Refusal(
            CROSS_SITE.status,
            CROSS_SITE.code,
            "a browser may not read by GET, since that takes the messages: POST …/receive",
        )


@get(
    "/groups/{group:str}/poll",
    tags=["Groups"],
    responses=errors(*_ERRORS),
    guards=[own_pages_only],
    opt=_READING,
)
async def poll(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    closing: NamedDependency[asyncio.Event],
    request: Request[Any, Any, Any],
    group: GroupInPath,
    member_id: Annotated[
        str | None,
        QueryParameter(
            name="memberId",
            min_length=1,
            max_length=MEMBER_ID_MAX_LENGTH,
            description="Read as this member, in offset order.",
        ),
    ] = None,
    topic: Annotated[
        str | None,
        QueryParameter(
            min_length=1,
            max_length=TOPIC_NAME_MAX_LENGTH,
            pattern=TOPIC_NAME_PATTERN,
            description="Instead of a member: lease messages of this topic as a queue.",
        ),
    ] = None,
    limit: Annotated[
        int, QueryParameter(name="max", ge=1, le=MESSAGES_MAX, description="Messages at most.")
    ] = MESSAGES_DEFAULT,
    wait_ms: Annotated[
        int,
        QueryParameter(
            name="timeout",
            ge=0,
            le=LONG_POLL_MAX_MS,
            description="Milliseconds to wait for a message if there is none yet.",
        ),
    ] = 0,
    encoding: Annotated[
        Encoding, QueryParameter(description="As for reading a partition.")
    ] = "text",
    after: Annotated[
        int | None,
        QueryParameter(
            ge=0,
            le=OFFSET_MAX,
            schema_extra={"minimum": 0, "maximum": OFFSET_MAX},
            description="Member only: `answer` of the last read that arrived, or of the join; "
            "what was lost since is delivered again.",
        ),
    ] = None,
    consumer: Annotated[
        str | None,
        QueryParameter(
            min_length=1,
            max_length=GROUP_NAME_MAX_LENGTH,
            description="Queue only: who leases; in-flight limits are per consumer.",
        ),
    ] = None,
    visibility: Annotated[
        int,
        QueryParameter(
            ge=0,
            le=DELAY_MAX_MS,
            description="Queue only: milliseconds until others may get the messages; 0 leaves it "
            "to the topic's settings.",
        ),
    ] = 0,
    start: Annotated[
        Literal["earliest", "latest"] | None,
        QueryParameter(description="Queue only: where the group's first poll begins."),
    ] = None,
) -> MemberPoll | QueuePoll:
    """The same as `POST …/receive`, for programs; browsers are refused."""
    wanted = ReceiveMessages(
        member_id=member_id,
        topic=topic,
        max=limit,
        timeout=wait_ms,
        encoding=encoding,
        after=after,
        consumer=consumer,
        visibility=visibility,
        start=start,
    )
    return await _read(service, caller, group, wanted, request, closing)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (receive, poll)


async def _read(
    service: BrokerService,
    caller: Caller,
    group: str,
    wanted: ReceiveMessages,
    request: Request[Any, Any, Any],
    closing: asyncio.Event,
) -> MemberPoll | QueuePoll:
    member_id, topic = wanted.member_id, wanted.topic
    limit, wait_ms = whole(wanted.max), whole(wanted.timeout)
    if (member_id is None) == (topic is None):
        raise Refusal(
            422,
            "invalid_request",
            "memberId, topic: give the first to read as a member of the "
            "group, or the second to read that topic as a queue",
        )
    if member_id is not None:
        if (wanted.consumer, wanted.visibility, wanted.start) != (None, 0, None):
            raise Refusal(
                422, "invalid_request", "consumer, visibility, start: they go with topic only"
            )
        polling = service.members.poll(
            caller,
            group,
            member_id,
            max_records=limit,
            timeout_ms=wait_ms,
            after=whole(wanted.after),
        )
        member, records = await or_gone(polling, request.receive, closing)
        return MemberPoll(
            [_show(each, wanted.encoding) for each in records],
            member.answer,
            member.epoch,
            show_partitions(member.to_revoke),
        )
    assert topic is not None
    if wanted.after is not None:
        raise Refusal(422, "invalid_request", "after: it goes with memberId only")
    lease = Receive(
        max_messages=min(limit, LEASED_MESSAGES_MAX),
        member=wanted.consumer,
        lease_ms=whole(wanted.visibility) or None,
        wait_ms=wait_ms,
        start=wanted.start or "earliest",
    )
    leasing = service.queues.receive(caller, group, topic, lease)
    # What does not wait needs nobody who looks whether its client does.
    if wait_ms:
        give_back = partial(service.queues.give_back, group)
        leasing = or_gone(leasing, request.receive, closing, unread=give_back)
    return QueuePoll([show_delivery(each, wanted.encoding) for each in await leasing])


def _show(polled: PolledRecord, encoding: Encoding) -> PolledMessage:
    stored = show_record(polled.record, polled.partition.partition, encoding)
    return PolledMessage(
        topic=polled.partition.topic,
        partition=stored.partition,
        offset=stored.offset,
        timestamp=stored.timestamp,
        key=stored.key,
        key_encoding=stored.key_encoding,
        value=stored.value,
        encoding=stored.encoding,
        headers=stored.headers,
    )
