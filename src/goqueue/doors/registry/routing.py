"""Which handler answers a request."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from goqueue.doors.registry import compatibility, schemas, server, settings, subjects
from goqueue.doors.registry.answers import Allowed
from goqueue.doors.registry.errors import HttpRefusal
from goqueue.doors.registry.requests import Call

Handler = Callable[[Call], Awaitable[object]]
Path = tuple[str, ...]

# A part of a path that can be anything.
_ANY: Final = "*"

ROUTES: Final[Mapping[str, Mapping[str, Handler]]] = {
    "": {"GET": server.root},
    "contexts": {"GET": server.list_contexts},
    "v1/metadata/id": {"GET": server.show_id},
    "v1/metadata/version": {"GET": server.show_version},
    "v1/metadata/deployment": {"GET": server.show_deployment},
    "subjects": {"GET": subjects.list_subjects},
    "subjects/*": {"POST": subjects.look_up, "DELETE": subjects.delete_subject},
    "subjects/*/metadata": {"GET": subjects.latest_with_metadata},
    "subjects/*/versions": {"GET": subjects.list_versions, "POST": subjects.register},
    "subjects/*/versions/*": {"GET": subjects.show_version, "DELETE": subjects.delete_version},
    "subjects/*/versions/*/schema": {"GET": subjects.show_version_text},
    "subjects/*/versions/*/referencedby": {"GET": subjects.list_referrers},
    "schemas": {"GET": schemas.list_schemas},
    "schemas/types": {"GET": schemas.list_types},
    "schemas/stats": {"GET": schemas.stats},
    "schemas/ids/*": {"GET": schemas.show},
    "schemas/ids/*/schema": {"GET": schemas.show_text},
    "schemas/ids/*/subjects": {"GET": schemas.list_subjects},
    "schemas/ids/*/versions": {"GET": schemas.list_versions},
    "schemas/guids/*": {"GET": schemas.show_by_guid},
    "schemas/guids/*/ids": {"GET": schemas.list_ids},
    "compatibility/subjects/*/versions": {"POST": compatibility.check_all},
    "compatibility/subjects/*/versions/*": {"POST": compatibility.check_version},
    "config": {
        "GET": settings.show_config,
        "PUT": settings.set_config,
        "DELETE": settings.delete_config,
    },
    "config/*": {
        "GET": settings.show_config,
        "PUT": settings.set_config,
        "DELETE": settings.delete_config,
    },
    "mode": {
        "GET": settings.show_mode,
        "PUT": settings.set_mode,
        "DELETE": settings.delete_mode,
    },
    "mode/*": {
        "GET": settings.show_mode,
        "PUT": settings.set_mode,
        "DELETE": settings.delete_mode,
    },
    "associations": {"POST": server.refuse_association, "PUT": server.refuse_association},
    "associations/resources/*": {"DELETE": server.refuse_association},
    "associations/resources/*/*": {"GET": server.list_associations},
}

_PREFIX: Final = "schemas"


def _by_size() -> dict[int, list[tuple[Path, Mapping[str, Handler]]]]:
    sized: dict[int, list[tuple[Path, Mapping[str, Handler]]]] = {}
    for text, methods in ROUTES.items():
        path = tuple(text.split("/")) if text else ()
        sized.setdefault(len(path), []).append((path, methods))
    return sized


_BY_SIZE: Final = _by_size()


class Found(NamedTuple):
    handler: Handler
    parts: Path


def find(method: str, path: Path) -> Found:
    """The handler for a path, at the root or under /schemas."""
    methods, parts = _match(path) or (None, ())
    if methods is None and path[:1] == (_PREFIX,):
        methods, parts = _match(path[1:]) or (None, ())
    if methods is None:
        raise HttpRefusal(404, "HTTP 404 Not Found")
    allowed = ", ".join([*methods, *(("HEAD",) if "GET" in methods else ()), "OPTIONS"])
    if method == "OPTIONS":
        return Found(partial(_show_allowed, Allowed(allowed)), parts)
    handler = methods.get("GET" if method == "HEAD" else method)
    if handler is None:
        raise HttpRefusal(405, "HTTP 405 Method Not Allowed", allowed=allowed)
    return Found(handler, parts)


async def _show_allowed(allowed: Allowed, _call: Call) -> Allowed:
    return allowed


def _match(path: Path) -> tuple[Mapping[str, Handler], Path] | None:
    for pattern, methods in _BY_SIZE.get(len(path), ()):
        if all(wanted in (_ANY, part) for wanted, part in zip(pattern, path, strict=True)):
            variable = zip(pattern, path, strict=True)
            return methods, tuple(part for wanted, part in variable if wanted == _ANY)
    return None
