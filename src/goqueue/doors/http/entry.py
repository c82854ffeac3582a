"""The first code that a request meets: who may come in, limits, the short way for publishing."""

import asyncio
from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Final

from msgspec.structs import replace

from goqueue.doors.http.asked import Asked
from goqueue.doors.http.body import read_json
from goqueue.doors.http.errors import Answer, answer, answer_to
from goqueue.doors.http.publishing import given_traceparent, publish
from goqueue.doors.http.tenant_refusals import local_refusal, note_tenant
from goqueue.doors.http.traffic import REQUESTS_IN_FLIGHT_MAX, Traffic
from goqueue.doors.web.asgi import Application, Message, Receive, Scope, Send
from goqueue.doors.web.bodies import BodyReader
from goqueue.doors.web.callers import caller_in
from goqueue.doors.web.log_in import REVOKED, Gate
from goqueue.doors.web.metering import measured
from goqueue.doors.web.mounting import Mount
from goqueue.doors.web.sending import respond
from goqueue.doors.web.site_guard import SiteGuard, Unwelcome
from goqueue.model.caller import Caller, Door
from goqueue.model.errors import ShuttingDown
from goqueue.model.security.quotas import QuotaExceeded
from goqueue.model.security.tenants import inner_name
from goqueue.service.broker_service import BrokerService

_PREFIX: Final = "/topics/"
_SUFFIX: Final = "/messages"
_PUBLISHING: Final = "/topics/{name}/messages"
# Paths and methods that do not exist.
_UNMATCHED: Final = "unmatched"
_ONLY_ASKING: Final = frozenset({"GET", "HEAD"})
_JSON: Final = b"application/json"
# Of a request that waits for something, such as a leader, when the door closes.
_CLOSING: Final = Unwelcome(
    503, ShuttingDown.code, "the broker is shutting down; whether this was done is not known"
)


class Entry:
    """The ASGI application. Litestar stands behind it.

    Publishing is answered here: it then costs 80 µs of processor time, append included, instead of
    190 µs through Litestar's routing, parameter models and middleware. Paths that are the same
    only after normalising (a trailing slash) take the long way, to the same function.
    """

    def __init__(
        self,
        service: BrokerService,
        *,
        app: Application,
        bodies: BodyReader,
        traffic: Traffic,
        guard: SiteGuard,
        closing: asyncio.Event,
        mounts: Sequence[Mount] = (),
    ) -> None:
        self._service = service
        self._guard = guard
        self._app = app
        self._mounts = mounts
        self._bodies = bodies
        self._traffic = traffic
        self._closing = closing
        self._gate = Gate(service.web_logins) if service.web_logins.is_on else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        traffic = self._traffic
        method: str = scope["method"]
        unwelcome = self._guard.refusal(scope)
        if unwelcome is not None:
            await self._refuse(unwelcome, scope, send)
            return
        path: str = scope["path"]
        if traffic.is_full_for(path):
            traffic.count(method, 503)
            await _send(
                send,
                answer(503, "overloaded", f"{REQUESTS_IN_FLIGHT_MAX} requests are under way"),
            )
            return
        traffic.in_flight += 1
        started = perf_counter()
        route = _UNMATCHED
        asked = Asked.note(scope, changes=method not in _ONLY_ASKING)
        try:
            mount = self._mount_of(scope)
            if self._gate is not None and await self._is_turned_away(
                self._gate, mount, asked, scope, send
            ):
                return
            if mount is not None:
                route = mount.name
                await self._mounted_answer(mount, asked, scope, receive, send)
                return
            caller = caller_in(scope, Door.HTTP)
            self._service.tracing.asked_by(caller)
            note_tenant(scope, caller)
            if method == "POST" and path.endswith(_SUFFIX) and path.startswith(_PREFIX):
                name = path[len(_PREFIX) : -len(_SUFFIX)]
                if name and "/" not in name and not scope["query_string"]:
                    route = _PUBLISHING
                    publishing = partial(self._publish, caller, name, asked, scope, receive, send)
                    await measured(self._service.quotas, caller, publishing)
                    return
            answering = partial(self._app_answer, asked, scope, receive, send)
            route = await measured(self._service.quotas, caller, answering)
        except QuotaExceeded as error:
            asked.has_begun = True
            traffic.count(method, 429)
            await _send(send, answer_to(error))
        except asyncio.CancelledError:
            if not await self._is_cancelled_here(asked, scope, send):
                raise
        finally:
            asked.end()
            if self._gate is not None:
                self._gate.standing.release()
            traffic.in_flight -= 1
            traffic.time(method, route, perf_counter() - started)

    def _mount_of(self, scope: Scope) -> Mount | None:
        for mount in self._mounts:
            if mount.takes(scope):
                return mount
        return None

    async def _is_turned_away(
        self, gate: Gate, mount: Mount | None, asked: Asked, scope: Scope, send: Send
    ) -> bool:
        if mount is not None and mount.logs_in:
            gate.prepare(scope)
            return False
        unwelcome = await gate.refusal(scope, Door.HTTP if mount is None else mount.door)
        if unwelcome is None:
            return False
        asked.has_begun = True
        await self._refuse(unwelcome, scope, send)
        return True

    async def _is_cancelled_here(self, asked: Asked, scope: Scope, send: Send) -> bool:
        """Whether a door that closes, a log-in that ended or a client that left is the reason; the
        first two are told."""
        reason = None
        if self._gate is not None and self._gate.standing.is_revoked:
            reason = REVOKED
        elif self._closing.is_set():
            reason = _CLOSING
        if reason is None:
            return asked.is_abandoned
        if not asked.has_begun:
            await self._refuse(reason, scope, send)
        return True

    async def _refuse(self, unwelcome: Unwelcome, scope: Scope, send: Send) -> None:
        self._traffic.count(scope["method"], unwelcome.status)
        mount = self._mount_of(scope)
        if mount is not None:
            await mount.refuse(unwelcome, scope, send)
            return
        await _send(send, answer(unwelcome.status, unwelcome.code, unwelcome.message))

    async def _publish(
        self,
        caller: Caller,
        name: str,
        asked: Asked,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        try:
            body = await read_json(self._bodies, scope["headers"], receive)
            stored, traceparent = await publish(
                self._service,
                caller,
                inner_name(caller.principal.tenant, name),
                body,
                given_traceparent(scope["headers"]),
            )
        except Exception as error:
            refusal = answer_to(error)
            refusal = replace(refusal, body=local_refusal(scope, refusal.body))
            asked.has_begun = True
            self._traffic.count("POST", refusal.status)
            await _send(send, refusal)
            return
        asked.has_begun = True
        self._traffic.count("POST", 200)
        await respond(send, 200, _JSON, stored, traceparent)

    async def _mounted_answer(
        self, mount: Mount, asked: Asked, scope: Scope, receive: Receive, send: Send
    ) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                asked.has_begun = True
                self._traffic.count(scope["method"], message["status"])
            await send(message)

        await mount(scope, receive, counted)

    async def _app_answer(self, asked: Asked, scope: Scope, receive: Receive, send: Send) -> str:
        """Returns the route that answered."""
        method: str = scope["method"]

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                asked.has_begun = True
                self._traffic.count(method, message["status"])
            await send(message)

        if method == "HEAD":
            # The same answer as to GET; the server leaves out its body.
            scope = {**scope, "method": "GET", "is_head": True}
        await self._app(scope, receive, counted)
        # Litestar's router leaves it there.
        return scope.get("path_template") or _UNMATCHED


async def _send(send: Send, refusal: Answer) -> None:
    headers = [(name.encode(), value.encode()) for name, value in refusal.headers.items()]
    await respond(send, refusal.status, _JSON, refusal.body, headers)
