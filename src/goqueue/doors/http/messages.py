"""/topics/{name}/messages and /topics/{name}/partitions/{partition}/messages."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter

from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.payloads import Encoding
from goqueue.doors.http.publishing import given_traceparent, publish
from goqueue.doors.http.stored_message import StoredMessage, show_record
from goqueue.doors.http.topics import TopicInPath
from goqueue.doors.web.long_poll import LONG_POLL_MAX_MS, or_gone
from goqueue.model.caller import Caller
from goqueue.model.digits import number_in
from goqueue.model.log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, PageRequest, RecordPage
from goqueue.model.rights import Resource, Verb
from goqueue.model.settings import INT32_MAX
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 10_000
# Record bytes in one answer (one record at least): turning them into JSON takes a few milliseconds.
READ_MAX_BYTES: Final = 4 * 1024 * 1024

_TIME_PATTERN: Final = (
    r"^([0-9]{1,15}"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?)$"
)
_TIME_DOC: Final = "milliseconds since 1970, or ISO 8601 (UTC unless it says otherwise)"

PartitionInPath = Annotated[
    int, PathParameter(ge=0, le=INT32_MAX, description="The partition's number.")
]


class PassedOverPart(msgspec.Struct, frozen=True, rename="camel"):
    """Offsets of a batch that cannot be decoded; `reason` says why."""

    first_offset: int
    last_offset: int
    reason: str


class MessagePage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`until_offset` is where the time asked for in `until` begins, as soon as that is known.

    `passed_over` has what lies between the messages and cannot be decoded.
    """

    messages: list[StoredMessage]
    next_offset: int
    until_offset: int | None
    log_start_offset: int
    high_watermark: int
    passed_over: list[PassedOverPart] = []


@post(
    "/topics/{name:str}/messages",
    tags=["Messages"],
    opt={
        "needs": (
            Need(Resource.TOPIC, Verb.WRITE, names="name"),
            # For a topic that is made by publishing to it.
            Need(Resource.TOPIC, Verb.CREATE, names="name", or_cluster=True),
        )
    },
    status_code=200,
    responses=errors(400, 403, 404, 409, 413, 415, 422),
)
async def publish_messages(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    name: TopicInPath,
    request: Request[Any, Any, Any],
) -> Response[bytes]:
    """Publish one message, or many as `{"messages": [...]}`.

    Messages for one partition are stored together or not at all, in the order given. A W3C
    `traceparent` request header becomes a header of messages that have none; the answer has one if
    a message is traced.
    """
    given = given_traceparent(request.scope["headers"])
    body, traceparent = await publish(service, caller, name, await request.body(), given)
    headers = {key.decode(): value.decode() for key, value in traceparent}
    return Response(body, media_type="application/json", headers=headers)


@get(
    "/topics/{name:str}/partitions/{partition:int}/messages",
    tags=["Messages"],
    responses=errors(400, 403, 404, 416, 422),
    opt={"needs": (Need(Resource.TOPIC, Verb.READ, names="name"),)},
)
async def read_messages(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    closing: NamedDependency[asyncio.Event],
    request: Request[Any, Any, Any],
    name: TopicInPath,
    partition: PartitionInPath,
    offset: Annotated[
        str | None,
        QueryParameter(
            pattern=r"^(earliest|latest|[0-9]{1,19})$",
            description="Where to begin: an offset, `earliest` (the default) or `latest`.",
        ),
    ] = None,
    timestamp: Annotated[
        str | None,
        QueryParameter(
            pattern=_TIME_PATTERN,
            description="Begin with the first message of this time or later, instead of an "
            f"offset: {_TIME_DOC}.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        QueryParameter(
            pattern=_TIME_PATTERN,
            description=f"End before the first message of this time or later: {_TIME_DOC}.",
        ),
    ] = None,
    limit: Annotated[
        int, QueryParameter(ge=1, le=LIMIT_MAX, description="Messages in the answer at most.")
    ] = LIMIT_DEFAULT,
    max_wait: Annotated[
        int,
        QueryParameter(
            name="maxWait",
            ge=0,
            le=LONG_POLL_MAX_MS,
            description="Milliseconds to wait for a message if there is none yet.",
        ),
    ] = 0,
    encoding: Annotated[
        Encoding,
        QueryParameter(
            description="`text`: strings, base64 where the bytes are not UTF-8. `json`: values "
            "that are JSON as JSON. `base64`: all of it as base64."
        ),
    ] = "text",
) -> MessagePage:
    """Read messages in order, from an offset or a time on."""
    wanted = PageRequest(
        **_begin(offset, timestamp),
        until_ms=None if until is None else _parse_time("until", until),
        limit=limit,
        max_bytes=READ_MAX_BYTES,
        max_wait_ms=max_wait,
    )
    reading = service.log.read_page(caller, name, partition, wanted)
    return _show(await or_gone(reading, request.receive, closing), partition, encoding)


# Of offsets and times, as Kafka has them.
_INT64_DIGITS: Final = 19

ROUTES: Final[Sequence[HTTPRouteHandler]] = (publish_messages, read_messages)


def _begin(offset: str | None, timestamp: str | None) -> dict[str, int]:
    if timestamp is not None:
        if offset is not None:
            raise Refusal(422, "invalid_request", "offset, timestamp: give one of the two")
        return {"since_ms": _parse_time("timestamp", timestamp)}
    number = number_in(offset, _INT64_DIGITS)
    if number is not None:
        return {"offset": number}
    if offset not in (None, "earliest", "latest"):
        raise Refusal(400, "invalid_request", "offset: neither a number nor earliest nor latest")
    return {"since_ms": LATEST_TIMESTAMP if offset == "latest" else EARLIEST_TIMESTAMP}


def _parse_time(field: str, text: str) -> int:
    number = number_in(text, _INT64_DIGITS)
    if number is not None:
        return number
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return max(0, round(time.timestamp() * 1000))
    except (ValueError, OverflowError) as error:
        raise Refusal(422, "invalid_time", f"{field}: {error}") from None


def _show(page: RecordPage, partition: int, encoding: Encoding) -> MessagePage:
    return MessagePage(
        messages=[show_record(record, partition, encoding) for record in page.records],
        next_offset=page.next_offset,
        until_offset=page.until_offset,
        log_start_offset=page.log_start_offset,
        high_watermark=page.high_watermark,
        passed_over=[PassedOverPart(*part) for part in page.passed_over],
    )
