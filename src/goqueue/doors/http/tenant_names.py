"""Names of a tenant at the HTTP door: its own in requests and answers, inner ones behind the door.

Parameters, fields of bodies and fields of answers are called the same everywhere (`topic`, `group`,
`transactionalId`, …), so that they are found by that. A test holds every string of every body and
answer to be one of these or known not to be a name. What messages carry is not looked into: it is
no field of a structure. Nothing of this is done for callers without a tenant.
"""

import functools
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Final

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler

from goqueue.doors.http.topics import CreateTopic, TopicDescription, TopicSummary
from goqueue.model.caller import Caller
from goqueue.model.security.tenants import inner_name, local_name, local_text, split_pattern

# Parameters of paths and queries that name things.
PARAMETERS: Final = frozenset({"topic", "group"})
# Paths in which `name` is that of a topic. Elsewhere it is that of a user or the like.
_WITH_TOPICS: Final = ("/topics/", "/traces/messages/")
# Receipts begin with the name of their topic.
NAMES: Final = frozenset({"topic", "group", "transactional_id", "receipt", "source_topic"})
LISTS_OF_NAMES: Final = frozenset({"topics", "receipts"})
NAMED_TOPICS: Final = (CreateTopic, TopicDescription, TopicSummary)
# What is said for people.
TEXTS: Final = frozenset({"message", "reason", "offline_reason"})
PATTERNS: Final = frozenset({"topic_regex"})

Rename = Callable[[str], str]


def serve_tenants(route: HTTPRouteHandler) -> None:
    """Let a route serve callers with a tenant, too. One without a caller tells all the same."""
    if "caller" in route.fn.__annotations__:
        names_topics = all(path.startswith(_WITH_TOPICS) for path in route.paths)
        route(_of_tenants(route.fn, PARAMETERS | {"name"} if names_topics else PARAMETERS))


def _of_tenants(
    handle: Callable[..., Awaitable[Any]], parameters: frozenset[str]
) -> Callable[..., Awaitable[Any]]:

    @functools.wraps(handle)
    async def handled(**given: Any) -> Any:
        caller: Caller = given["caller"]
        tenant = caller.principal.tenant
        if not tenant:
            return await handle(**given)
        to_inner = functools.partial(inner_name, tenant)
        for name in parameters & given.keys():
            if isinstance(given[name], str):
                given[name] = to_inner(given[name])
        if "data" in given:
            given["data"] = _renamed(given["data"], to_inner, None)
        answer = await handle(**given)
        return _local(answer, tenant)

    return handled


def _local(answer: Any, tenant: str) -> Any:
    to_local = functools.partial(local_name, tenant)
    to_text = functools.partial(local_text, tenant)
    if not isinstance(answer, Response):
        return _renamed(answer, to_local, to_text)
    answer.content = _renamed(answer.content, to_local, to_text)
    if "location" in answer.headers:
        answer.headers["location"] = to_text(answer.headers["location"])
    return answer


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind))


def _renamed(value: Any, rename: Rename, text: Rename | None) -> Any:
    """`text` is for what is said for people, in answers."""
    if isinstance(value, msgspec.Struct):
        changes: dict[str, Any] = {}
        for name in _fields(type(value)):
            found = getattr(value, name)
            changed = _field(value, name, found, rename, text)
            if changed is not found:
                changes[name] = changed
        return msgspec.structs.replace(value, **changes) if changes else value
    if isinstance(value, list | tuple):
        return [_renamed(each, rename, text) for each in value]
    if isinstance(value, dict):
        return {key: _renamed(each, rename, text) for key, each in value.items()}
    return value


def _field(
    value: msgspec.Struct, name: str, found: Any, rename: Rename, text: Rename | None
) -> Any:
    if isinstance(found, str):
        if name in NAMES or (name == "name" and isinstance(value, NAMED_TOPICS)):
            return rename(found)
        if text is not None:
            if name in TEXTS:
                return text(found)
            return split_pattern(found)[1] if name in PATTERNS else found
        return found
    if name in LISTS_OF_NAMES and found and isinstance(found[0], str):
        return [rename(each) for each in found]
    return _renamed(found, rename, text)
