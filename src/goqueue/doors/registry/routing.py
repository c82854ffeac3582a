"""Which handler answers a request, and what its caller must be allowed to do.

Every path may begin with /contexts/{name}: subjects and ids in it are then of that context.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from goqueue.doors.registry import (
    compatibility,
    contexts,
    schemas,
    server,
    settings,
    subjects,
)
from goqueue.doors.registry.answers import Allowed
from goqueue.doors.registry.errors import HttpRefusal
from goqueue.doors.registry.requests import Call
from goqueue.model.rights import Resource, Verb
from goqueue.model.schemas.contexts import DEFAULT_CONTEXT, parse_context
from goqueue.service.needs import OPEN, Need, Refused

Handler = Callable[[Call], Awaitable[object]]
Path = tuple[str, ...]


class Route(NamedTuple):
    handler: Handler
    needs: tuple[Need, ...]


def _subject(verb: Verb) -> Need:
    return Need(Resource.SUBJECT, verb, names="subject")


_READ: Final = (_subject(Verb.READ),)
_DELETE: Final = (_subject(Verb.DELETE),)
_DELETE_CONTEXT: Final = (Need(Resource.SUBJECT, Verb.DELETE, names="context"),)
# Those of all contexts, `:.__GLOBAL:`, need the right on the cluster.
_CONFIGURE: Final = (_subject(Verb.ALTER_CONFIGS),)
# What a schema in the body refers to.
_REFERENCES: Final = Need(Resource.SUBJECT, Verb.READ, names="references.subject")
_WRITE: Final = (_subject(Verb.WRITE), _REFERENCES)
_COMPARE: Final = (_subject(Verb.READ), _REFERENCES)
# A schema that only subjects have which the caller may not read is not found.
_READ_ANY: Final = (Need(Resource.SUBJECT, Verb.READ, refused=Refused.LEFT_OUT),)
_REFERRERS: Final = (*_READ, *_READ_ANY)
_FIGURES: Final = (Need(Resource.CLUSTER, Verb.DESCRIBE),)
_READ_ALL: Final = (Need(Resource.CLUSTER, Verb.DESCRIBE_CONFIGS),)
_CONFIGURE_ALL: Final = (Need(Resource.CLUSTER, Verb.ALTER_CONFIGS),)

# A part of a path in braces can be anything; the needs call it by its name.
ROUTES: Final[Mapping[str, Mapping[str, Route]]] = {
    "": {"GET": Route(server.root, OPEN)},
    "contexts": {"GET": Route(contexts.list_contexts, _READ_ANY)},
    "contexts/{context}": {"DELETE": Route(contexts.delete_context, _DELETE_CONTEXT)},
    "v1/metadata/id": {"GET": Route(server.show_id, OPEN)},
    "v1/metadata/version": {"GET": Route(server.show_version, OPEN)},
    "v1/metadata/deployment": {"GET": Route(server.show_deployment, OPEN)},
    "subjects": {"GET": Route(subjects.list_subjects, _READ_ANY)},
    "subjects/{subject}": {
        "POST": Route(subjects.look_up, _COMPARE),
        "DELETE": Route(subjects.delete_subject, _DELETE),
    },
    "subjects/{subject}/metadata": {"GET": Route(subjects.latest_with_metadata, _READ)},
    "subjects/{subject}/versions": {
        "GET": Route(subjects.list_versions, _READ),
        "POST": Route(subjects.register, _WRITE),
    },
    "subjects/{subject}/versions/{version}": {
        "GET": Route(subjects.show_version, _READ),
        "DELETE": Route(subjects.delete_version, _DELETE),
    },
    "subjects/{subject}/versions/{version}/schema": {
        "GET": Route(subjects.show_version_text, _READ)
    },
    "subjects/{subject}/versions/{version}/referencedby": {
        "GET": Route(subjects.list_referrers, _REFERRERS)
    },
    "schemas": {"GET": Route(schemas.list_schemas, _READ_ANY)},
    "schemas/types": {"GET": Route(schemas.list_types, OPEN)},
    "schemas/stats": {"GET": Route(schemas.stats, _FIGURES)},
    "schemas/ids/{id}": {"GET": Route(schemas.show, _READ_ANY)},
    "schemas/ids/{id}/schema": {"GET": Route(schemas.show_text, _READ_ANY)},
    "schemas/ids/{id}/subjects": {"GET": Route(schemas.list_subjects, _READ_ANY)},
    "schemas/ids/{id}/versions": {"GET": Route(schemas.list_versions, _READ_ANY)},
    "schemas/guids/{guid}": {"GET": Route(schemas.show_by_guid, _READ_ANY)},
    "schemas/guids/{guid}/ids": {"GET": Route(schemas.list_ids, _READ_ANY)},
    "compatibility/subjects/{subject}/versions": {"POST": Route(compatibility.check_all, _COMPARE)},
    "compatibility/subjects/{subject}/versions/{version}": {
        "POST": Route(compatibility.check_version, _COMPARE)
    },
    "config": {
        "GET": Route(settings.show_config, _READ_ALL),
        "PUT": Route(settings.set_config, _CONFIGURE_ALL),
        "DELETE": Route(settings.delete_config, _CONFIGURE_ALL),
    },
    "config/{subject}": {
        "GET": Route(settings.show_config, _READ),
        "PUT": Route(settings.set_config, _CONFIGURE),
        "DELETE": Route(settings.delete_config, _CONFIGURE),
    },
    "mode": {
        "GET": Route(settings.show_mode, _READ_ALL),
        "PUT": Route(settings.set_mode, _CONFIGURE_ALL),
        "DELETE": Route(settings.delete_mode, _CONFIGURE_ALL),
    },
    "mode/{subject}": {
        "GET": Route(settings.show_mode, _READ),
        "PUT": Route(settings.set_mode, _CONFIGURE),
        "DELETE": Route(settings.delete_mode, _CONFIGURE),
    },
    "associations": {
        "POST": Route(server.refuse_association, OPEN),
        "PUT": Route(server.refuse_association, OPEN),
    },
    "associations/resources/{resource}": {"DELETE": Route(server.refuse_association, OPEN)},
    "associations/resources/{namespace}/{resource}": {"GET": Route(server.list_associations, OPEN)},
}

_PREFIX: Final = "schemas"
_CONTEXTS: Final = "contexts"


def _by_size() -> dict[int, list[tuple[Path, Mapping[str, Route]]]]:
    sized: dict[int, list[tuple[Path, Mapping[str, Route]]]] = {}
    for text, methods in ROUTES.items():
        path = tuple(text.split("/")) if text else ()
        sized.setdefault(len(path), []).append((path, methods))
    return sized


_BY_SIZE: Final = _by_size()


class Found(NamedTuple):
    handler: Handler
    parts: Path
    context: str


def find(method: str, path: Path) -> Found:
    """The handler for a path, at the root or under /schemas, of a context or of none."""
    context, path = _split(path)
    methods, parts = _match(path) or (None, ())
    if methods is None and path[:1] == (_PREFIX,):
        inner, path = _split(path[1:])
        context = inner or context
        methods, parts = _match(path) or (None, ())
    if methods is None:
        raise HttpRefusal(404, "HTTP 404 Not Found")
    allowed = ", ".join([*methods, *(("HEAD",) if "GET" in methods else ()), "OPTIONS"])
    where = DEFAULT_CONTEXT if context is None else parse_context(context)
    if method == "OPTIONS":
        return Found(partial(_show_allowed, Allowed(allowed)), parts, where)
    route = methods.get("GET" if method == "HEAD" else method)
    if route is None:
        raise HttpRefusal(405, "HTTP 405 Method Not Allowed", allowed=allowed)
    return Found(route.handler, parts, where)


def _split(path: Path) -> tuple[str | None, Path]:
    """The context that a path begins with, and the rest of it."""
    if len(path) > 2 and path[0] == _CONTEXTS:
        return path[1], path[2:]
    return None, path


async def _show_allowed(allowed: Allowed, _call: Call) -> Allowed:
    return allowed


def _match(path: Path) -> tuple[Mapping[str, Route], Path] | None:
    for pattern, methods in _BY_SIZE.get(len(path), ()):
        pairs = list(zip(pattern, path, strict=True))
        if all(_is_any(wanted) or wanted == part for wanted, part in pairs):
            return methods, tuple(part for wanted, part in pairs if _is_any(wanted))
    return None


def _is_any(wanted: str) -> bool:
    return wanted.startswith("{")
