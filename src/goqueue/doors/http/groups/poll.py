"""/groups/{group}/poll: read as a member of the group, or lease messages of a queue."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from litestar import Request, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from msgspec import Meta

from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.groups.fields import (
    GROUP_NAME_MAX_LENGTH,
    MEMBER_ID_MAX_LENGTH,
    GroupInPath,
    TopicPartitions,
    show_partitions,
)
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.payloads import ByteEncoding, Encoding
from goqueue.doors.http.publishing import NamedHeader
from goqueue.doors.http.queues import DELAY_MAX_MS, QueuedMessage, poll_queue
from goqueue.doors.http.stored_message import show_record
from goqueue.doors.http.topics import TOPIC_NAME_PATTERN
from goqueue.doors.web.long_poll import LONG_POLL_MAX_MS, or_gone
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
    member_epoch: Annotated[int, Meta(description="The generation, or the member's epoch.")]
    revoke: Annotated[
        list[TopicPartitions],
        Meta(description="A cooperative member gives these up and confirms with POST …/revoke."),
    ]


class QueuePoll(msgspec.Struct, frozen=True):
    messages: list[QueuedMessage]


@get(
    "/groups/{group:str}/poll",
    tags=["Groups"],
    responses=errors(400, 403, 404, 409, 416, 422),
    # As a member, the topics are those that the group has given it.
    opt={
        "needs": (
            Need(Resource.GROUP, Verb.READ, names="group"),
            Need(Resource.TOPIC, Verb.READ, names="topic"),
        )
    },
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
    """Messages for a member of the group, or of a topic read as a queue.

    A member's poll is a heartbeat, too. 409 `rebalance_in_progress`: commit, and join again.
    """
    if (member_id is None) == (topic is None):
        raise Refusal(
            422,
            "invalid_request",
            "memberId, topic: give the first to read as a member of the "
            "group, or the second to read that topic as a queue",
        )
    if member_id is not None:
        if (consumer, visibility, start) != (None, 0, None):
            raise Refusal(
                422, "invalid_request", "consumer, visibility, start: they go with topic only"
            )
        member, records = await or_gone(
            service.members.poll(caller, group, member_id, max_records=limit, timeout_ms=wait_ms),
            request.receive,
            closing,
        )
        return MemberPoll(
            [_show(each, encoding) for each in records],
            member.epoch,
            show_partitions(member.to_revoke),
        )
    assert topic is not None
    wanted = Receive(
        max_messages=min(limit, LEASED_MESSAGES_MAX),
        member=consumer,
        lease_ms=visibility or None,
        wait_ms=wait_ms,
        start=start or "earliest",
    )
    found = await or_gone(
        poll_queue(service, caller, group, topic, wanted, encoding),
        request.receive,
        closing,
    )
    return QueuePoll(found)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (poll,)


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
