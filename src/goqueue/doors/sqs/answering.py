"""The ASGI handler: how requests are answered in their protocol. Loaded with the first of them."""

import asyncio
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import msgspec

from goqueue.doors.sqs import query_protocol
from goqueue.doors.sqs.actions import ACTIONS, Action
from goqueue.doors.sqs.addresses import DEFAULT_REGION, region_of
from goqueue.doors.sqs.answers import Answer, Done
from goqueue.doors.sqs.call import Call
from goqueue.doors.sqs.errors import ErrorKind, SqsError
from goqueue.doors.sqs.message_headers import new_message_id
from goqueue.doors.sqs.recognising import TARGET, is_queue_path
from goqueue.doors.sqs.refusals import refusal
from goqueue.doors.sqs.tenant_names import inner_request, local_answer, local_error
from goqueue.doors.web.asgi import Receive, Scope, Send
from goqueue.doors.web.bodies import BodyFault, BodyReader, BodyRefused, Headers
from goqueue.doors.web.callers import caller_in
from goqueue.doors.web.long_poll import gone
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


class Answering:
    def __init__(self, service: BrokerService, closing: asyncio.Event) -> None:
        self._service = service
        self._closing = closing
        self._traffic = service.measuring.traffic.sqs
        self._bodies = BodyReader(max_bytes=BODY_MAX_BYTES, held_max_bytes=BODIES_HELD_MAX_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = _head(scope["headers"])
        caller = caller_in(scope, Door.SQS)
        self._service.tracing.asked_by(caller)
        request_id = new_message_id()
        started = perf_counter()
        if head.target:
            action = await self._answer_json(head, caller, request_id, receive, send)
        else:
            action = await self._answer_query(
                head, caller, scope["path"], request_id, receive, send
            )
        self._traffic.latencies[action].observe(perf_counter() - started)

    # --- the JSON protocol ----------------------------------------------------------------

    async def _answer_json(
        self, head: _Head, caller: Caller, request_id: str, receive: Receive, send: Send
    ) -> str:
        headers = [(b"x-amzn-requestid", request_id.encode())]
        name = head.target[len(TARGET) :].decode("latin-1")
        try:
            body = await self._body(head, receive)
            action = _find(name)
            content = _encode(
                await self._carry_out(action, _decode(action, body), head, caller, receive)
            )
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
        self, head: _Head, caller: Caller, path: str, request_id: str, receive: Receive, send: Send
    ) -> str:
        name = ""
        headers = [(b"x-amzn-requestid", request_id.encode())]
        try:
            body = await self._body(head, receive)
            form = await query_protocol.read_form(body)
            name = form.pop("Action", "")
            action = _find(name)
            fields = query_protocol.unflatten(name, form)
            if "QueueUrl" not in fields and is_queue_path(path):
                fields["QueueUrl"] = path
            answer = await self._carry_out(action, _convert(action, fields), head, caller, receive)
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
        caller: Caller,
        receive: Receive,
    ) -> Answer:
        region = region_of(head.authorization) if head.authorization else DEFAULT_REGION
        closing = self._closing
        host = head.host.decode("latin-1")
        trace = head.trace.decode("latin-1")
        call = Call(caller, host, region, lambda: gone(receive, closing), closing, trace)
        tenant = caller.principal.tenant
        if not tenant:
            return await action.carry_out(self._service, call, request)
        try:
            asked = inner_request(tenant, request)
            return local_answer(tenant, await action.carry_out(self._service, call, asked))
        except Exception as error:
            raise local_error(tenant, refusal(error)) from error

    async def _body(self, head: _Head, receive: Receive) -> bytes:
        try:
            return await self._bodies.read(head.headers, head.length, receive)
        except BodyRefused as refused:
            raise _refusal(refused.fault) from None


async def refuse(unwelcome: Unwelcome, scope: Scope, send: Send) -> None:
    """Answer a request that was not let in, or is not waited for, in its protocol."""
    is_denied = unwelcome.status < ErrorKind.SERVICE_UNAVAILABLE.status
    kind = ErrorKind.ACCESS_DENIED if is_denied else ErrorKind.SERVICE_UNAVAILABLE
    error = SqsError(kind, unwelcome.message)
    request_id = new_message_id()
    headers = [(b"x-amzn-requestid", request_id.encode()), *retry_after(unwelcome.status)]
    if _head(scope["headers"]).target:
        headers.append(query_error_header(error))
        await respond(send, unwelcome.status, _JSON, _json_error(error), headers)
    else:
        content = query_protocol.error_xml(error, request_id)
        await respond(send, unwelcome.status, b"text/xml", content, headers)


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


def _decode(action: Action, body: bytes) -> msgspec.Struct:
    try:
        decoded: msgspec.Struct = action.decoder.decode(body or b"{}")
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise SqsError(ErrorKind.MALFORMED, str(error)) from None
    return decoded


def _convert(action: Action, fields: dict[str, Any]) -> msgspec.Struct:
    try:
        return msgspec.convert(fields, action.request, strict=False)
    except msgspec.ValidationError as error:
        raise SqsError(ErrorKind.MALFORMED, str(error)) from None
