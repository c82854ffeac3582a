"""/topics/{name}/dlq: dead letters of a topic, listed and sent back."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, QueryParameter
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.doors.http.payloads import ByteEncoding, Encoding
from goqueue.doors.http.publishing import NamedHeader
from goqueue.doors.http.stored_message import show_record
from goqueue.doors.http.topics import TopicInPath
from goqueue.doors.http.whole_numbers import whole
from goqueue.model import header_names
from goqueue.model.caller import Caller
from goqueue.model.digits import number_in
from goqueue.model.queues.dead_letters import StoredDeadLetter, dead_letter_topic
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 10_000


class DeadLetter(msgspec.Struct, frozen=True, rename="camel"):
    """A message with why, when and where it died; `partition` and `offset` are in the dlq topic."""

    partition: int
    offset: int
    timestamp: int
    key: str | None
    key_encoding: ByteEncoding
    value: Any
    encoding: Encoding
    headers: list[NamedHeader]
    reason: str | None
    group: str | None
    delivery_count: int | None
    source_topic: str | None
    source_partition: int | None
    source_offset: int | None
    died_at: int | None


class DeadLetterList(msgspec.Struct, frozen=True, rename="camel"):
    topic: Annotated[str, Meta(description="The topic that holds them.")]
    dead_letters: list[DeadLetter]


class Redrive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[
        Annotated[float, Meta(ge=1, le=1_000_000, multiple_of=1)] | None,
        Meta(description="How many at most, oldest first; without it all there are now."),
    ] = None


class RedriveResult(msgspec.Struct, frozen=True, rename="camel"):
    sent_back: int
    gone: Annotated[
        int,
        Meta(
            description="They stay dead letters: the topic that they name is no more, does not "
            "send its dead letters here or does not take them, or the caller may not write to it."
        ),
    ]
    held: Annotated[
        int,
        Meta(
            description="In the hands of another redrive, or of one whose broker was lost: free "
            "again within a minute."
        ),
    ]


# Of the topic in the path and of its dead-letter topic.
_LISTING: Final = {"needs": (Need(Resource.TOPIC, Verb.READ, names="name"),)}
_SENDING_BACK: Final = {
    "needs": (
        Need(Resource.TOPIC, Verb.WRITE, names="name"),
        Need(Resource.TOPIC, Verb.READ, names="name"),
    )
}


@get("/topics/{name:str}/dlq", tags=["Queues"], responses=errors(400, 403, 404, 422), opt=_LISTING)
async def list_dlq(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    name: TopicInPath,
    limit: Annotated[
        int, QueryParameter(ge=1, le=LIMIT_MAX, description="Dead letters in the answer at most.")
    ] = LIMIT_DEFAULT,
    encoding: Annotated[
        Encoding, QueryParameter(description="How values are shown, as when reading messages.")
    ] = "text",
) -> DeadLetterList:
    """The oldest dead letters of a topic that were not sent back."""
    found = await service.queues.dead_letters(caller, name, limit=limit)
    return DeadLetterList(dead_letter_topic(name), [_show(each, encoding) for each in found])


@post(
    "/topics/{name:str}/dlq/redrive",
    tags=["Queues"],
    status_code=200,
    responses=errors(400, 403, 404, 413, 415, 422),
    opt=_SENDING_BACK,
)
async def redrive_dlq(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    name: TopicInPath,
    data: JSONBody[Redrive],
) -> RedriveResult:
    """Send dead letters back to the topics they came from."""
    result = await service.queues.redrive(caller, name, limit=whole(data.limit))
    return RedriveResult(result.sent_back, result.gone, result.held)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (list_dlq, redrive_dlq)


def _show(letter: StoredDeadLetter, encoding: Encoding) -> DeadLetter:
    stored = show_record(letter.record, letter.partition, encoding)
    said = {
        name: value.decode("utf-8", "replace")
        for name, value in letter.record.headers
        if value is not None and name.startswith(header_names.DEAD_LETTER_PREFIX)
    }
    return DeadLetter(
        partition=stored.partition,
        offset=stored.offset,
        timestamp=stored.timestamp,
        key=stored.key,
        key_encoding=stored.key_encoding,
        value=stored.value,
        encoding=stored.encoding,
        headers=stored.headers,
        reason=said.get(header_names.DEAD_LETTER_REASON),
        group=said.get(header_names.DEAD_LETTER_GROUP),
        delivery_count=number_in(said.get(header_names.DEAD_LETTER_COUNT)),
        source_topic=said.get(header_names.DEAD_LETTER_TOPIC),
        source_partition=number_in(said.get(header_names.DEAD_LETTER_PARTITION)),
        source_offset=number_in(said.get(header_names.DEAD_LETTER_OFFSET)),
        died_at=number_in(said.get(header_names.DEAD_LETTER_TIME)),
    )
