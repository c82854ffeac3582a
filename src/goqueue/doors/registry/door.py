"""The ASGI handler: which requests are for the registry, and how answers are sent."""

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

import msgspec

from goqueue.doors.registry.answers import Allowed, LongList, NoContent, PlainText
from goqueue.doors.registry.errors import HttpRefusal, answer_to, in_words_of
from goqueue.doors.web.asgi import Receive, Scope, Send
from goqueue.doors.web.bodies import BodyFault, BodyReader, BodyRefused, Headers
from goqueue.doors.web.callers import caller_in
from goqueue.doors.web.metering import measured
from goqueue.doors.web.sending import challenge, respond, retry_after
from goqueue.doors.web.site_guard import Unwelcome
from goqueue.model.caller import Door
from goqueue.model.errors import GoQueueError
from goqueue.model.schemas.errors import RegistryRefusal
from goqueue.model.security.quotas import QuotaExceeded
from goqueue.service.broker_service import BrokerService

if TYPE_CHECKING:
    from goqueue.doors.registry.requests import Call
    from goqueue.doors.registry.routing import Handler

# The first that the client accepts is the answer's type.
_KINDS: Final = (
    b"application/vnd.schemaregistry.v1+json",
    b"application/vnd.schemaregistry+json",
    b"application/json",
)
# A schema in a request is a JSON string: at worst, each byte of it becomes six there (\u0000).
_ESCAPED: Final = 6
# Names, subjects and versions of references, and the request's own words.
_BODY_ROOM_BYTES: Final = 256 * 1024
# Unfinished bodies of all requests together: dozens of the largest with default settings.
_BODIES_HELD_MAX_BYTES: Final = 256 * 1024 * 1024
_BYTES_KIND: Final = "application/octet-stream"
# Of a long list, this much is sent at a time.
_CHUNK_BYTES: Final = 64 * 1024
# What the door takes from the others on its port, by the first part of the path.
FIRST_PARTS: Final = frozenset(
    {"associations", "compatibility", "config", "contexts", "mode", "schemas", "subjects"}
)
_METADATA_PATH: Final = "/v1/metadata/"

_encode = msgspec.json.Encoder().encode


class RegistryDoor:
    """Mounted in the HTTP door: `takes` says which requests are for it."""

    name = "registry"
    door = Door.REGISTRY
    logs_in = False

    def __init__(self, service: BrokerService) -> None:
        self._service = service
        self._bodies = BodyReader(
            max_bytes=_ESCAPED * service.schemas.schema_max_bytes + _BODY_ROOM_BYTES,
            held_max_bytes=_BODIES_HELD_MAX_BYTES,
        )

    def close(self) -> None:
        """No request waits for anything but its own work."""

    def takes(self, scope: Scope) -> bool:
        path: str = scope["path"]
        if path == "/":
            # The front page is for everyone else.
            return scope["method"] in ("GET", "HEAD") and _accepts_registry(scope)
        first, _, _ = path[1:].partition("/")
        return first in FIRST_PARTS or path.startswith(_METADATA_PATH)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind, allowed = _KINDS[0], ""
        wait_s: int | None = None
        try:
            kind = _kind(scope)
            answer = await self._answer(scope, receive)
            if isinstance(answer, LongList):
                await _send_list(send, kind, answer)
                return
            status = 200
            if isinstance(answer, Allowed):
                content, allowed = b"", answer.methods
            elif isinstance(answer, NoContent):
                await send({"type": "http.response.start", "status": 204, "headers": []})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            else:
                content = answer.text.encode() if isinstance(answer, PlainText) else _encode(answer)
        except Exception as error:
            status, body = answer_to(error)
            content = _encode(body)
            allowed = error.allowed if isinstance(error, HttpRefusal) else ""
            if isinstance(error, QuotaExceeded):
                wait_s = -(-error.retry_after_ms // 1000)
        headers = [(b"allow", allowed.encode())] if allowed else []
        headers += retry_after(status) if wait_s is None else [(b"retry-after", b"%d" % wait_s)]
        await respond(send, status, kind, content, headers)

    async def refuse(self, unwelcome: Unwelcome, _scope: Scope, send: Send) -> None:
        status, body = answer_to(HttpRefusal(unwelcome.status, unwelcome.message))
        headers = [*retry_after(status), *challenge(status)]
        await respond(send, status, _KINDS[0], _encode(body), headers)

    async def _answer(self, scope: Scope, receive: Receive) -> object:
        # Imported with the first request: most brokers start without a registry being used.
        from goqueue.doors.registry.requests import Call, Query
        from goqueue.doors.registry.routing import find

        handler, parts, context = find(scope["method"], _path(scope))
        caller = caller_in(scope, Door.REGISTRY)
        self._service.tracing.asked_by(caller)
        call = Call(
            service=self._service,
            caller=caller,
            parts=parts,
            query=Query(scope["query_string"]),
            read=lambda: self._body(scope["headers"], receive),
            context=context,
        )
        return await measured(self._service.quotas, caller, lambda: _answered(handler, call))

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        length = _check_head(headers)
        try:
            return await self._bodies.read(headers, length, receive)
        except BodyRefused as refused:
            raise _refusal(refused.fault, self._bodies.max_bytes) from None


async def _answered(handler: "Handler", call: "Call") -> object:
    """In the words of the caller's tenant."""
    if not call.tenant:
        return await handler(call)
    from goqueue.doors.registry.tenant_names import local_answer

    try:
        return local_answer(call.tenant, await handler(call))
    except (RegistryRefusal, GoQueueError) as error:
        raise in_words_of(call.tenant, error) from None


def _refusal(fault: BodyFault, max_bytes: int) -> HttpRefusal:
    if fault is BodyFault.TOO_LARGE:
        return HttpRefusal(
            413,
            f"the request is larger than {max_bytes} bytes, which is room for any schema "
            "within schema.max.bytes",
        )
    if fault is BodyFault.TOO_MUCH_AT_ONCE:
        return HttpRefusal(503, "too many large requests are under way; try again")
    return HttpRefusal(400, "the connection ended before the request did")


def _check_head(headers: Headers) -> int:
    """Refuse what says that it is something else than JSON; return the announced length."""
    kind, length = "", 0
    for name, value in headers:
        if name == b"content-type":
            kind = value.partition(b";")[0].strip().lower().decode("latin-1")
        elif name == b"content-length":
            length = int(value)
    is_json = kind.startswith("application/") and kind.endswith(("/json", "+json"))
    if not is_json and kind not in ("", _BYTES_KIND):
        raise HttpRefusal(
            415,
            f"content-type is {kind}; send application/vnd.schemaregistry.v1+json "
            "or application/json",
        )
    return length


def _path(scope: Scope) -> tuple[str, ...]:
    """The path's parts, each decoded by itself: a subject may have slashes (%2F) in it."""
    raw: bytes = scope["raw_path"]
    try:
        parts = [unquote_to_bytes(part).decode() for part in raw.split(b"/")]
    except UnicodeDecodeError:
        raise HttpRefusal(400, "the path is not percent-encoded UTF-8") from None
    return tuple(parts[1:-1] if parts[-1] == "" else parts[1:])


def _accept(scope: Scope) -> bytes:
    return b",".join(value for name, value in scope["headers"] if name == b"accept").lower()


def _accepts_registry(scope: Scope) -> bool:
    return b"application/vnd.schemaregistry" in _accept(scope)


def _kind(scope: Scope) -> bytes:
    accepted = [part.partition(b";")[0].strip() for part in _accept(scope).split(b",")]
    for kind in _KINDS:
        if kind in accepted:
            return kind
    if not any(part in (b"", b"*/*", b"application/*") for part in accepted):
        raise HttpRefusal(406, "HTTP 406 Not Acceptable")
    return _KINDS[0]


async def _send_list(send: Send, kind: bytes, answer: LongList) -> None:
    headers = [(b"content-type", kind)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    chunk = bytearray(b"[")
    separator = b""
    for item in answer.items:
        chunk += separator + _encode(item)
        separator = b","
        if len(chunk) >= _CHUNK_BYTES:
            await send({"type": "http.response.body", "body": bytes(chunk), "more_body": True})
            chunk.clear()
    chunk += b"]"
    await send({"type": "http.response.body", "body": bytes(chunk), "more_body": False})
