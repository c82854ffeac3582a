"""The things that have settings, by Kafka's numbers, and the rules for naming and changing them."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import Enum
from typing import Protocol, TypeVar

from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.names import NodeId


class ResourceType(Enum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(Protocol):
    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


R = TypeVar("R", bound=Resource)


class Change(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str | None: ...


def own_node_id(broker: Node, resource_name: str) -> NodeId | None:
    """The broker a resource name means; None is the default for all brokers."""
    if not resource_name:
        return None
    if not resource_name.lstrip("-").isdecimal():
        raise InvalidRequest(f"broker id must be an integer, but it is {resource_name!r}")
    if int(resource_name) != broker.node_id:
        raise InvalidRequest(f"this is broker {broker.node_id}; ask broker {resource_name} itself")
    return broker.node_id


def repeated_resources(resources: Iterable[Resource]) -> set[tuple[int, str]]:
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    return {resource for resource, count in named.items() if count > 1}


def check_changes(changes: Sequence[Change], *, may_be_null: Sequence[str] = ()) -> None:
    names = Counter(change.name for change in changes)
    repeated = sorted(name for name, count in names.items() if count > 1)
    if repeated:
        raise InvalidRequest(f"settings given more than once: {', '.join(repeated)}")
    nulls = [c.name for c in changes if c.value is None and c.name not in may_be_null]
    if nulls:
        raise InvalidRequest(f"settings without a value: {', '.join(nulls)}")


def alter_answer(resource: Resource, error: GoQueueError | None) -> Message:
    return {
        "error_code": ErrorCode.none if error is None else error_code(error),
        "error_message": None if error is None else error.message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


async def alter_each(resources: Sequence[R], alter: Callable[[R], Awaitable[None]]) -> Message:
    """Alter one resource after the other; what one refuses does not hold up the others."""
    repeated = repeated_resources(resources)
    answers = []
    for resource in resources:
        try:
            if (resource.resource_type, resource.resource_name) in repeated:
                raise InvalidRequest("each resource must appear at most once")
            await alter(resource)
            answers.append(alter_answer(resource, None))
        except GoQueueError as error:
            answers.append(alter_answer(resource, error))
    return {"responses": answers}
