"""Names of a tenant at Kafka's door: its own in requests and answers, inner ones behind the door.

Which fields are names is known from kio's types, in every version; the few that are plain strings,
or hidden in bytes that only clients read, are listed here. A test holds every string of every
message to be one of these or known not to be a name. Nothing of this is done for callers without a
tenant.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, get_args

from kio.index import load_request_schema, load_response_schema
from kio.schema.types import GroupId, TopicName, TransactionalId

from goqueue.doors.kafka.rows import Rows
from goqueue.doors.kafka.wire.fields import Field, fields_of
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.configs import ConfigResourceKind
from goqueue.model.groups.consumer_protocol import rename_assigned, rename_subscribed
from goqueue.model.security.tenants import inner_name, local_name, local_text, split_pattern

# What becomes of a value: it, and the tenant.
Rename = Callable[[Any, str], Any]

_NAMES: Final = (TopicName, GroupId, TransactionalId)
# What is said for people ends so.
_TEXTS: Final = ("error_message", "status_detail")
_KINDS_WITH_NAMES: Final = (ConfigResourceKind.TOPIC.value, ConfigResourceKind.GROUP.value)

_FIND_COORDINATOR: Final = 10
_JOIN_GROUP: Final = 11
_SYNC_GROUP: Final = 14
_DESCRIBE_GROUPS: Final = 15
_CONSUMER_GROUP_DESCRIBE: Final = 69


# Bytes in which names are looked for in one go; that many have twenty thousand names at most, and
# take some milliseconds. More are looked at in a thread.
CONTENTS_AT_ONCE_BYTES: Final = 64 * 1024
# Beside its bytes, each content costs some microseconds.
_CONTENT_BYTES: Final = 64


class TenantNames(NamedTuple):
    """Of one operation at one version. Contents are bytes of clients that have names in them."""

    inner: Callable[[Any, str], Any]
    local: Callable[[Message, str], Message]
    contents_asked: Callable[[Any], int]
    contents_told: Callable[[Message], int]


def _to_inner(value: str, tenant: str) -> str:
    return inner_name(tenant, value)


def _to_local(value: str, tenant: str) -> str:
    return local_name(tenant, value)


def _to_local_pattern(value: str, _tenant: str) -> str:
    return split_pattern(value)[1]


def _subscription_to_inner(value: bytes, tenant: str) -> bytes:
    return rename_subscribed(bytes(value), lambda name: inner_name(tenant, name))


def _subscription_to_local(value: bytes, tenant: str) -> bytes:
    return rename_subscribed(bytes(value), lambda name: local_name(tenant, name))


def _assignment_to_inner(value: bytes, tenant: str) -> bytes:
    return rename_assigned(bytes(value), lambda name: inner_name(tenant, name))


def _assignment_to_local(value: bytes, tenant: str) -> bytes:
    return rename_assigned(bytes(value), lambda name: local_name(tenant, name))


# By API key and path. A share group's state is looked for by a key that begins with the group.
SPECIAL_IN_REQUESTS: Final[Mapping[tuple[int, str], Rename]] = {
    (_FIND_COORDINATOR, "key"): _to_inner,
    (_FIND_COORDINATOR, "coordinator_keys"): _to_inner,
    (_JOIN_GROUP, "protocols.metadata"): _subscription_to_inner,
    (_SYNC_GROUP, "assignments.assignment"): _assignment_to_inner,
}
SPECIAL_IN_ANSWERS: Final[Mapping[tuple[int, str], Rename]] = {
    (_FIND_COORDINATOR, "coordinators.key"): _to_local,
    (_JOIN_GROUP, "members.metadata"): _subscription_to_local,
    (_SYNC_GROUP, "assignment"): _assignment_to_local,
    (_DESCRIBE_GROUPS, "groups.members.member_metadata"): _subscription_to_local,
    (_DESCRIBE_GROUPS, "groups.members.member_assignment"): _assignment_to_local,
    (_CONSUMER_GROUP_DESCRIBE, "groups.members.subscribed_topic_regex"): _to_local_pattern,
}
# Of what has settings; whether it is a name says the type beside it. Names in rules are those that
# their tenant uses.
CONFIGS: Final = (32, 33, 44, 74)
RESOURCE_NAME: Final = "resource_name"
_RESOURCE_TYPE: Final = "resource_type"


@cache
def tenant_names(api_key: int, version: int) -> TenantNames:
    request: Any = load_request_schema(api_key, version)
    answer: Any = load_response_schema(api_key, version)
    return TenantNames(
        inner=_request_renamer(request, api_key, "") or _unchanged,
        local=_answer_renamer(answer, api_key, "") or _unchanged,
        contents_asked=_CONTENTS_ASKED.get(api_key, _no_contents),
        contents_told=_CONTENTS_TOLD.get(api_key, _no_contents),
    )


def _sizes(contents: Iterable[bytes]) -> int:
    return sum(len(each) + _CONTENT_BYTES for each in contents)


def _no_contents(_: object) -> int:
    return 0


_CONTENTS_ASKED: Final[Mapping[int, Callable[[Any], int]]] = {
    _JOIN_GROUP: lambda request: _sizes(each.metadata for each in request.protocols),
    _SYNC_GROUP: lambda request: _sizes(each.assignment for each in request.assignments),
}
_CONTENTS_TOLD: Final[Mapping[int, Callable[[Message], int]]] = {
    _JOIN_GROUP: lambda answer: _sizes(each["metadata"] for each in answer["members"]),
    _SYNC_GROUP: lambda answer: _sizes((answer["assignment"],)),
    _DESCRIBE_GROUPS: lambda answer: _sizes(
        content
        for group in answer["groups"]
        for member in group["members"]
        for content in (member["member_metadata"], member["member_assignment"])
    ),
}


def _unchanged(value: Any, _tenant: str) -> Any:
    return value


def is_name(entity: Any, field: str) -> bool:
    """Whether kio's type of the field says that it is the name of a topic, a group or the like."""
    found: Any = next(each.type for each in dataclasses.fields(entity) if each.name == field)
    return any(kind in _NAMES for kind in _within(found))


def _within(kind: Any) -> list[Any]:
    inner = get_args(kind)
    return [found for each in inner for found in _within(each)] if inner else [kind]


def _request_renamer(entity: Any, api_key: int, path: str) -> Rename | None:
    """None where there is nothing to rename."""
    steps: dict[str, Rename] = {}
    for field in fields_of(entity):
        place = path + field.name
        rename: Rename | None = SPECIAL_IN_REQUESTS.get((api_key, place))
        if field.entity is not None:
            rename = _request_renamer(field.entity, api_key, f"{place}.")
        elif is_name(entity, field.name):
            rename = _to_inner
        if rename is not None:
            steps[field.name] = _each(rename) if field.is_array else _unless_missing(rename)
    names = {field.name for field in fields_of(entity)}
    has_resource = api_key in CONFIGS and RESOURCE_NAME in names
    if not steps and not has_resource:
        return None

    def renamed(value: Any, tenant: str) -> Any:
        changes = {name: step(getattr(value, name), tenant) for name, step in steps.items()}
        if has_resource and value.resource_type in _KINDS_WITH_NAMES:
            changes[RESOURCE_NAME] = inner_name(tenant, value.resource_name)
        return value._replace(**changes)

    return renamed


def _answer_renamer(entity: Any, api_key: int, path: str) -> Rename | None:
    steps: dict[str, Rename] = {}
    for field in fields_of(entity):
        rename = _in_answer(entity, field, api_key, path)
        if rename is not None:
            steps[field.name] = _each_row(rename) if field.is_array else _unless_missing(rename)
    names = {field.name for field in fields_of(entity)}
    has_resource = api_key in CONFIGS and RESOURCE_NAME in names
    if not steps and not has_resource:
        return None

    def renamed(message: Message, tenant: str) -> Message:
        changed = dict(message)
        for name, step in steps.items():
            if name in changed:
                changed[name] = step(changed[name], tenant)
        # Where there is no type, only client metrics are told of, which tenants have none of.
        if has_resource and int(changed.get(_RESOURCE_TYPE, 0)) in _KINDS_WITH_NAMES:
            changed[RESOURCE_NAME] = local_name(tenant, changed[RESOURCE_NAME])
        return changed

    return renamed


def _in_answer(entity: Any, field: Field, api_key: int, path: str) -> Rename | None:
    place = path + field.name
    if field.entity is not None:
        return _answer_renamer(field.entity, api_key, f"{place}.")
    if is_name(entity, field.name):
        return _to_local
    if field.name.endswith(_TEXTS):
        return lambda text, tenant: local_text(tenant, text)
    return SPECIAL_IN_ANSWERS.get((api_key, place))


def _unless_missing(rename: Rename) -> Rename:
    return lambda value, tenant: None if value is None else rename(value, tenant)


def _each(rename: Rename) -> Rename:
    def renamed(values: Any, tenant: str) -> Any:
        return None if values is None else tuple(rename(value, tenant) for value in values)

    return renamed


def _each_row(rename: Rename) -> Rename:
    def renamed(values: Any, tenant: str) -> Any:
        if values is None:
            return None
        if isinstance(values, Rows):
            return values.changed(lambda message: rename(message, tenant))
        return [rename(value, tenant) for value in values]

    return renamed
