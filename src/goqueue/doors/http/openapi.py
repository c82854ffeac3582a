"""The API document: Litestar's, made exact where Litestar is not.

Body and answer types are described by msgspec, which decodes and encodes them, so that the document
says what is enforced: unknown fields refused, limits, nothing optional that is required.
"""

from collections.abc import Mapping
from functools import lru_cache
from threading import Lock
from typing import Any, Final

import msgspec
from litestar import Litestar, Router
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Server

from goqueue import __version__
from goqueue.doors.http.errors import ErrorBody
from goqueue.doors.http.publishing import (
    NewMessage,
    NewMessages,
    PublishedMessage,
    PublishedMessages,
)
from goqueue.doors.http.security.credentials import Credentials

_SCHEMAS: Final = "#/components/schemas/{name}"
_PUBLISH_PATH: Final = "/topics/{name}/messages"

_DESCRIPTION: Final = """\
Topics, publishing and reading over HTTP. Everything is JSON.

An error is `{"error": {"code", "message"}}`. Status 400 is a request that is not of the form
described here, 422 one of the right form whose content is refused, 503 one to send again later
(after `Retry-After` seconds). Any request may be answered with 421 if it calls the broker by a name
that is not its own, and one that changes something with 403 if a web page of another site sent it.
With security on, whoever does not log in (Basic, Bearer, or the cookie of POST /session) gets 401,
everywhere but at /healthz and /readyz.
A connection that sends no valid HTTP gets 400, one that is too slow 408, one with headers over
64 KiB 431.
"""

_MEANINGS: Final[Mapping[int, str]] = {
    400: "Not of the documented form",
    401: "The caller did not log in, or what it showed is wrong",
    403: "The caller may not do this, or nobody may: the topic belongs to the broker",
    404: "No such topic or partition",
    409: "It exists already, or was changed at the same time",
    413: "Larger than `http.request.max.bytes`, or than the topic's `max.message.bytes`",
    415: "Not `application/json`",
    416: "The offset is outside the log",
    422: "Of the right form, but refused",
    503: "Not now: starting, stopping, overloaded, or the partition is offline",
}


def errors(*statuses: int) -> dict[int, ResponseSpec]:
    """The error answers of an operation; any operation may be asked to come back later."""
    return {
        status: ResponseSpec(
            data_container=ErrorBody, description=_MEANINGS[status], generate_examples=False
        )
        for status in sorted({*statuses, 503})
    }


class _NoPages(Router):
    """Takes none of the pages that Litestar adds: they load scripts from other hosts."""

    def register(self, value: Any) -> list[Any]:  # noqa: ARG002
        return []


def openapi_config() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="GoQueue",
        version=__version__,
        description=_DESCRIPTION,
        servers=[Server(url="/")],
        use_handler_docstrings=True,
        operation_id_creator=lambda handler, _method, _path: handler.handler_name,
        openapi_router=_NoPages("/", route_handlers=[]),
    )


# Who asks meanwhile waits for the one that is made.
_making: Final = Lock()


def openapi_document(app: Litestar) -> bytes:
    """The document of an app, which does not change while it runs. For any thread."""
    with _making:
        return _document(app)


@lru_cache(maxsize=1)
def _document(app: Litestar) -> bytes:
    document: dict[str, Any] = app.openapi_schema.to_schema()
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
            for response in operation["responses"].values():
                for content in response.get("content", {}).values():
                    _allow_overlap(content["schema"])
    _describe_publish(document["paths"][_PUBLISH_PATH]["post"])
    document["paths"]["/session"]["post"]["requestBody"] = {
        "required": False,
        "content": _either(Credentials),
    }
    document["components"]["schemas"] = _components(app)
    return msgspec.json.encode(document)


def _allow_overlap(schema: dict[str, Any]) -> None:
    """An answer of one of two types may look like one of the other, such as when it is empty."""
    if "oneOf" in schema:
        schema["anyOf"] = schema.pop("oneOf")


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """An optional parameter is left out; it is never null."""
    alternatives = [each for each in schema.get("oneOf", ()) if each != {"type": "null"}]
    if len(alternatives) != 1:
        return schema
    rest = {name: value for name, value in schema.items() if name != "oneOf"}
    return {**alternatives[0], **rest}


def _describe_publish(operation: dict[str, Any]) -> None:
    """The handler works on bytes, so Litestar cannot see its types."""
    operation["requestBody"] = {"required": True, "content": _either(NewMessage, NewMessages)}
    operation["responses"]["200"] = {
        "description": "Where the message, or each of the messages, is stored",
        "content": _either(PublishedMessage, PublishedMessages),
    }


def _either(*types: type) -> dict[str, Any]:
    references = [{"$ref": _SCHEMAS.format(name=each.__name__)} for each in types]
    return {"application/json": {"schema": {"oneOf": references}}}


def _components(app: Litestar) -> dict[str, Any]:
    types: set[type] = {
        Credentials,
        ErrorBody,
        NewMessage,
        NewMessages,
        PublishedMessage,
        PublishedMessages,
    }
    for route in app.routes:
        for handler in getattr(route, "route_handlers", ()):
            signature = handler.parsed_fn_signature
            fields = (signature.return_type, *signature.parameters.values())
            for field in fields:
                for annotation in (field.annotation, *field.args):
                    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
                        types.add(annotation)
    _, components = msgspec.json.schema_components(
        sorted(types, key=lambda each: each.__name__), ref_template=_SCHEMAS
    )
    return {name: _with_integers(schema) for name, schema in components.items()}


def _with_integers(schema: Any) -> Any:
    """Write `integer` for what whole_numbers.py reads."""
    if isinstance(schema, list):
        return [_with_integers(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: _with_integers(each) for name, each in schema.items()}
    if inner.get("type") == "number" and inner.get("multipleOf") == 1:
        del inner["multipleOf"]
        inner["type"] = "integer"
    return inner
