"""The ASGI handler: how requests are answered in their protocol. Loaded with the first of them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final, NamedTuple, get_origin

import msgspec

from goqueue.doors.sqs import query_protocol
from goqueue.doors.sqs.actions import ACTIONS, Action
from goqueue.doors.sqs.addresses import DEFAULT_REGION, region_of
from goqueue.doors.sqs.answers import Answer, Done
from goqueue.doors.sqs.call import Call
from goqueue.doors.sqs.errors import ErrorKind, SqsError
from goqueue.doors.sqs.log_in import Signed
from goqueue.doors.sqs.message_headers import new_message_id
from goqueue.doors.sqs.recognising import TARGET, is_queue_path
from goqueue.doors.sqs.refusals import refusal
from goqueue.doors.sqs.tenant_names import inner_request, local_answer, local_error
from goqueue.doors.web.asgi import Receive, Scope, Send
from goqueue.doors.web.bodies import BodyFault, BodyReader, BodyRefused, Headers
from goqueue.doors.web.callers import caller_in
from goqueue.doors.web.long_poll import gone
from goqueue.doors.web.metering import measured
from goqueue.doors.web.sending import respond, retry_after
from goqueue.doors.web.site_guard import Unwelcome
from goqueue.model.caller import Caller, Door
from goqueue.service.broker_service import BrokerService

_JSON: Final = b"application/x-amz-json-1.0"
# A message of a megabyte whose characters are all escaped in JSON (\u0000), or three bytes each in
# a form, with room for its attributes.
BODY_MAX_BYTES: Final = 8 * 1024 * 1024
# Bodies under way at once: as many of the largest as this holds, and many more common ones.
BODIES_HELD_MAX_BYTES: Final = 128 * 1024 * 1024

_KIND_OF: Final = {
    401: ErrorKind.INVALID_CLIENT_TOKEN_ID,
    503: ErrorKind.SERVICE_UNAVAILABLE,
}

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Head:
    """What the headers of a request say."""

    headers: Headers
    target: bytes = b""
    content_type: bytes = b""
    host: bytes = b"localhost"
    authorization: bytes = b""
    trace: bytes = b""
    length: int = 0


class _Entered(NamedTuple):
    """A request that was let in. `query_fields`: what a presigned URL says."""

    caller: Caller
    body: bytes
    query_fields: Mapping[str, list[str]]


class Answering:
    def __init__(self, service: BrokerService, closing: asyncio.Event) -> None:
        self._service = service
        self._logins = service.web_logins
        self._closing = closing
        self._traffic = service.measuring.traffic.sqs
        self._bodies = BodyReader(max_bytes=BODY_MAX_BYTES, held_max_bytes=BODIES_HELD_MAX_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = _head(scope["headers"])
        request_id = new_message_id()
        started = perf_counter()
        if head.target:
            action = await self._answer_json(head, scope, request_id, receive, send)
        else:
            action = await self._answer_query(head, scope, request_id, receive, send)
        self._traffic.latencies[action].observe(perf_counter() - started)

    # --- the JSON protocol ----------------------------------------------------------------

    async def _answer_json(
        self, head: _Head, scope: Scope, request_id: str, receive: Receive, send: Send
    ) -> str:
        headers = [(b"x-amzn-requestid", request_id.encode())]
        name = head.target[len(TARGET) :].decode("latin-1")
        try:
            entered = await self._entered(scope, head, receive)
            action = _find(name)
            wanted = _decode(action, entered.body, entered.query_fields)
            content = _encode(await self._carry_out(action, wanted, head, entered, receive))
            status = 200
        except Exception as error:
            refused = self._refused(name, error)
            status = refused.kind.status
            content = _json_error(refused)
            headers += [query_error_header(refused), *retry_after(status)]
        await respond(send, status, _JSON, content, headers)
        return _label(name)

    # --- the query protocol ---------------------------------------------------------------

    async def _answer_query(
        self, head: _Head, scope: Scope, request_id: str, receive: Receive, send: Send
    ) -> str:
        name, path = "", scope["path"]
        headers = [(b"x-amzn-requestid", request_id.encode())]
        try:
            entered = await self._entered(scope, head, receive)
            form = await query_protocol.read_form(entered.body)
            form |= {field: values[-1] for field, values in entered.query_fields.items()}
            name = form.pop("Action", "")
            action = _find(name)
            fields = query_protocol.unflatten(name, form)
            if "QueueUrl" not in fields and is_queue_path(path):
                fields["QueueUrl"] = path
            wanted = _convert(action, fields)
            answer = await self._carry_out(action, wanted, head, entered, receive)
            said = None if isinstance(answer, Done) else msgspec.to_builtins(answer)
            content = query_protocol.answer_xml(name, said, request_id)
            status = 200
        except Exception as error:
            refused = self._refused(name, error)
            status = refused.kind.status
            content = query_protocol.error_xml(refused, request_id)
            headers += retry_after(status)
        await respond(send, status, b"text/xml", content, headers)
        return _label(name)

    # --- both -----------------------------------------------------------------------------

    def _refused(self, action: str, error: Exception) -> SqsError:
        refused = refusal(error)
        self._traffic.errors[_label(action), refused.kind.query_code] += 1
        return refused

    async def _carry_out(
        self,
        action: Action,
        request: msgspec.Struct,
        head: _Head,
        entered: "_Entered",
        receive: Receive,
    ) -> Answer:
        region = region_of(head.authorization) if head.authorization else DEFAULT_REGION
        closing = self._closing
        host = head.host.decode("latin-1")
        trace = head.trace.decode("latin-1")
        scheme = "https" if self._service.config.tls_certificate_file else "http"
        call = Call(
            entered.caller, host, region, lambda: gone(receive, closing), closing, trace, scheme
        )
        carrying_out = partial(self._answered, action, call, request)
        return await measured(self._service.quotas, entered.caller, carrying_out)

    async def _answered(self, action: Action, call: Call, request: Any) -> Any:
        tenant = call.caller.principal.tenant
        if not tenant:
            return await action.carry_out(self._service, call, request)
        try:
            asked = inner_request(tenant, request)
            return local_answer(tenant, await action.carry_out(self._service, call, asked))
        except Exception as error:
            raise local_error(tenant, refusal(error)) from error

    async def _entered(self, scope: Scope, head: _Head, receive: Receive) -> "_Entered":
        """The body of a request, and who sent it."""
        signed = await Signed.begin(self._logins, scope) if self._logins.is_on else None
        body = await self._body(head, receive)
        if signed is not None:
            await signed.check(body)
        caller = caller_in(scope, Door.SQS)
        self._service.tracing.asked_by(caller)
        return _Entered(caller, body, {} if signed is None else signed.query_fields)

    async def _body(self, head: _Head, receive: Receive) -> bytes:
        try:
            return await self._bodies.read(head.headers, head.length, receive)
        except BodyRefused as refused:
            raise _refusal(refused.fault) from None


async def refuse(unwelcome: Unwelcome, scope: Scope, send: Send) -> None:
    """Answer a request that was not let in, or is not waited for, in its protocol."""
    error = SqsError(_KIND_OF.get(unwelcome.status, ErrorKind.ACCESS_DENIED), unwelcome.message)
    # AWS has no 401.
    status = error.kind.status if unwelcome.status == 401 else unwelcome.status
    request_id = new_message_id()
    headers = [(b"x-amzn-requestid", request_id.encode()), *retry_after(status)]
    if _head(scope["headers"]).target:
        headers.append(query_error_header(error))
        await respond(send, status, _JSON, _json_error(error), headers)
    else:
        content = query_protocol.error_xml(error, request_id)
        await respond(send, status, b"text/xml", content, headers)


def _json_error(error: SqsError) -> bytes:
    return _encode({"__type": error.kind.json_type, "message": error.message})


def query_error_header(error: SqsError) -> tuple[bytes, bytes]:
    blame = "Sender" if error.kind.is_sender else "Receiver"
    return b"x-amzn-query-error", f"{error.kind.query_code};{blame}".encode()


def _refusal(fault: BodyFault) -> SqsError:
    if fault is BodyFault.TOO_LARGE:
        return SqsError(
            ErrorKind.REQUEST_TOO_LARGE, f"The request is larger than {BODY_MAX_BYTES} bytes."
        )
    if fault is BodyFault.TOO_MUCH_AT_ONCE:
        return SqsError(ErrorKind.SERVICE_UNAVAILABLE, "Too many large requests are under way.")
    return SqsError(ErrorKind.MALFORMED, "The connection ended before the request did.")


def _head(headers: Headers) -> _Head:
    head = _Head(headers)
    for name, value in headers:
        if name == b"x-amz-target":
            head.target = value
        elif name == b"host":
            head.host = value
        elif name == b"authorization":
            head.authorization = value
        elif name == b"x-amzn-trace-id":
            head.trace = value
        elif name == b"content-length":
            head.length = int(value)
        elif name == b"content-type":
            head.content_type = value
    return head


def _find(name: str) -> Action:
    action = ACTIONS.get(name)
    if action is None:
        raise SqsError(
            ErrorKind.INVALID_ACTION, f"The action {name} is not valid for this endpoint."
        )
    return action


def _label(action: str) -> str:
    """For the metrics: a client may ask for any word."""
    return action if action in ACTIONS else "unknown"


def _decode(
    action: Action, body: bytes, query_fields: Mapping[str, list[str]] = {}
) -> msgspec.Struct:
    if query_fields and not body:
        return _convert(action, _listed(action, query_fields))
    try:
        decoded: msgspec.Struct = action.decoder.decode(body or b"{}")
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise SqsError(ErrorKind.MALFORMED, str(error)) from None
    return decoded


def _listed(action: Action, fields: Mapping[str, list[str]]) -> dict[str, Any]:
    """As SDKs presign requests of this protocol: in place of the body, with a name for each value
    of a list."""
    lists = {
        each.encode_name
        for each in msgspec.structs.fields(action.request)
        if list in (get_origin(each.type), get_origin(getattr(each.type, "__origin__", None)))
    }
    return {name: each if name in lists else each[-1] for name, each in fields.items()}


def _convert(action: Action, fields: dict[str, Any]) -> msgspec.Struct:
    try:
        return msgspec.convert(fields, action.request, strict=False)
    except msgspec.ValidationError as error:
        raise SqsError(ErrorKind.MALFORMED, str(error)) from None
