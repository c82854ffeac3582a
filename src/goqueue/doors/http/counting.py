"""/topics/{name}/partitions/{partition}/count."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from litestar import Request, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter

from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.messages import PartitionInPath
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.topics import TopicInPath
from goqueue.doors.web.long_poll import or_gone
from goqueue.model.caller import Caller
from goqueue.model.log import CountRequest, Isolation
from goqueue.model.rights import Resource, Verb
from goqueue.model.settings import INT64_MAX
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

IsolationName = Literal["read_committed", "read_uncommitted"]


class MessageCount(msgspec.Struct, frozen=True, rename="camel"):
    """`count` messages from `from` up to `nextOffset`, which is `to` if the time was enough.

    `topicId` tells the topic from one that is made later under its name.
    """

    count: int
    first_offset: int = msgspec.field(name="from")
    end_offset: int = msgspec.field(name="to")
    next_offset: int
    topic_id: str


def _offset(name: str, description: str) -> QueryParameter:
    return QueryParameter(
        name=name,
        ge=0,
        le=INT64_MAX,
        # Bounds of an optional number are not in the document by themselves.
        schema_extra={"minimum": 0, "maximum": INT64_MAX},
        description=description,
    )


@get(
    "/topics/{name:str}/partitions/{partition:int}/count",
    tags=["Messages"],
    responses=errors(400, 403, 404, 416, 422),
    opt={"needs": (Need(Resource.TOPIC, Verb.READ, names="name"),)},
)
async def count_messages(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    closing: NamedDependency[asyncio.Event],
    request: Request[Any, Any, Any],
    name: TopicInPath,
    partition: PartitionInPath,
    first_offset: Annotated[
        int | None,
        _offset("from", "The first offset that counts; without it, the start of the log."),
    ] = None,
    end_offset: Annotated[
        int | None,
        _offset("to", "The first offset that counts no more; without it, the end of the log."),
    ] = None,
    isolation: Annotated[
        IsolationName,
        QueryParameter(
            description="`read_uncommitted` also counts what was aborted, and what belongs to open "
            "transactions."
        ),
    ] = "read_committed",
) -> MessageCount:
    """Count messages without reading them.

    The answer comes within seconds. If it does not reach `to`, go on from its `nextOffset`.
    """
    if first_offset is not None and end_offset is not None and first_offset > end_offset:
        raise Refusal(422, "invalid_request", f"from, to: {first_offset} is above {end_offset}")
    wanted = CountRequest(
        first_offset=first_offset,
        end_offset=end_offset,
        isolation=Isolation[isolation.upper()],
    )
    counting = service.log.count_records(caller, name, partition, wanted)
    counted = await or_gone(counting, request.receive, closing)
    return MessageCount(
        count=counted.records,
        first_offset=counted.first_offset,
        end_offset=counted.end_offset,
        next_offset=counted.next_offset,
        topic_id=str(counted.topic_id),
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (count_messages,)
