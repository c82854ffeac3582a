"""The things that have settings, by Kafka's numbers, and the rules for naming and changing them."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.configs import ConfigEntry, ConfigResource, ConfigResourceKind
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused


class NamedResource(Protocol):
    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


R = TypeVar("R", bound=NamedResource)


class Change(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str | None: ...


def setting_row(entry: ConfigEntry) -> Message:
    """What every answer tells of a setting."""
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source.value,
        "is_sensitive": entry.is_sensitive,
    }


def config_resource(named: NamedResource) -> ConfigResource:
    try:
        kind = ConfigResourceKind(named.resource_type)
    except ValueError:
        raise InvalidRequest(f"resource type {named.resource_type} is not supported") from None
    return ConfigResource(kind, named.resource_name)


def needs_for(verb: Verb) -> tuple[Need, ...]:
    """Of which each resource of a request needs the one of its kind."""
    names = "resources.resource_name"
    return (
        Need(Resource.TOPIC, verb, names=names, refused=Refused.EACH),
        Need(Resource.GROUP, verb, names=names, refused=Refused.EACH),
        Need(Resource.CLUSTER, verb, refused=Refused.EACH),
    )


def repeated_resources(resources: Iterable[NamedResource]) -> set[tuple[int, str]]:
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


def alter_answer(resource: NamedResource, error: GoQueueError | None) -> Message:
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
    async for resource in in_slices(resources):
        try:
            if (resource.resource_type, resource.resource_name) in repeated:
                raise InvalidRequest("each resource must appear at most once")
            await alter(resource)
            answers.append(alter_answer(resource, None))
        except GoQueueError as error:
            answers.append(alter_answer(resource, error))
    return {"responses": answers}
