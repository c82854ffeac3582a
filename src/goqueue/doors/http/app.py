"""The Litestar application: every resource's routes, with what they need."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qsl

from litestar import Litestar, Request, Response, route
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency, Provide
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler

from goqueue.doors.http import (
    backups,
    client_metrics,
    client_subscriptions,
    cluster,
    cluster_settings,
    counting,
    dead_letters,
    delays,
    documentation,
    health,
    layouts,
    messages,
    metrics,
    queues,
    replica_moves,
    topics,
    tracing,
)
from goqueue.doors.http.behind_door import BehindDoor, behind_door
from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.framework_errors import respond
from goqueue.doors.http.groups import (
    assignment,
    cooperative,
    groups,
    membership,
    offsets,
    poll,
    rebalance,
)
from goqueue.doors.http.json_request import JsonRequest
from goqueue.doors.http.metrics import Exposition
from goqueue.doors.http.openapi import openapi_config
from goqueue.doors.http.readiness import Readiness
from goqueue.doors.http.security import audit, keys, quotas, rules, sessions, tenants, users
from goqueue.doors.http.tenant_names import serve_tenants
from goqueue.doors.http.transactions import groups as transaction_groups
from goqueue.doors.http.transactions import listing, producers, transactions
from goqueue.doors.web.asgi import Application, Receive, Scope, Send
from goqueue.doors.web.bodies import BodyReader
from goqueue.doors.web.callers import caller_in
from goqueue.model.caller import Caller, Door
from goqueue.service.broker_service import BrokerService

ROUTES: Final[Sequence[HTTPRouteHandler]] = (
    *topics.ROUTES,
    *layouts.ROUTES,
    *messages.ROUTES,
    *counting.ROUTES,
    *groups.ROUTES,
    *membership.ROUTES,
    *cooperative.ROUTES,
    *assignment.ROUTES,
    *poll.ROUTES,
    *offsets.ROUTES,
    *rebalance.ROUTES,
    *producers.ROUTES,
    *transactions.ROUTES,
    *listing.ROUTES,
    *transaction_groups.ROUTES,
    *queues.ROUTES,
    *dead_letters.ROUTES,
    *delays.ROUTES,
    *tracing.ROUTES,
    *cluster.ROUTES,
    *backups.ROUTES,
    *cluster_settings.ROUTES,
    *client_metrics.ROUTES,
    *client_subscriptions.ROUTES,
    *replica_moves.ROUTES,
    *audit.ROUTES,
    *tenants.ROUTES,
    *users.ROUTES,
    *keys.ROUTES,
    *rules.ROUTES,
    *sessions.ROUTES,
    *quotas.ROUTES,
    *health.ROUTES,
    *metrics.ROUTES,
    *documentation.ROUTES,
)

for _route in ROUTES:
    serve_tenants(_route)


def build_app(
    service: BrokerService,
    *,
    bodies: BodyReader,
    readiness: Readiness,
    exposition: Exposition,
    closing: asyncio.Event,
) -> Application:
    """Requests of one door, each with what is behind it."""
    framework = _framework()
    behind = BehindDoor(
        service=service,
        bodies=bodies,
        readiness=readiness,
        exposition=exposition,
        closing=closing,
    )

    def answer(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        behind.tell(scope)
        return framework(scope, receive, send)  # type: ignore[arg-type]

    return answer


@cache
def _framework() -> Litestar:
    """One for all doors of a process: to register the routes takes a tenth of a second."""
    check_needs(ROUTES)
    return Litestar(
        # First, or Litestar has added its own already.
        route_handlers=[*_options_routes(ROUTES), *ROUTES],
        dependencies=_dependencies(),
        guards=[check_query],
        exception_handlers={Exception: respond},
        request_class=JsonRequest,
        openapi_config=openapi_config(),
        logging_config=None,
        signature_types=[
            BrokerService,
            Caller,
            Readiness,
            Exposition,
            Request,
        ],
    )


def check_needs(routes: Iterable[HTTPRouteHandler]) -> None:
    """Every route says what its caller must be allowed to do, or that it is `OPEN`."""
    for each in routes:
        if "needs" not in each.opt:
            raise TypeError(f"route {each} does not declare what it needs")


def _options_routes(routes: Sequence[HTTPRouteHandler]) -> list[HTTPRouteHandler]:
    """OPTIONS for every path. Litestar's own answer names only the first method of each path."""
    methods: dict[str, set[str]] = {}
    for each in routes:
        for path in each.paths:
            methods.setdefault(path, {"OPTIONS"}).update(each.http_methods)
    return [_options_route(path, ", ".join(sorted(known))) for path, known in methods.items()]


def _options_route(path: str, allowed: str) -> HTTPRouteHandler:
    @route(path, http_method="OPTIONS", status_code=204, include_in_schema=False)
    async def options() -> Response[None]:
        return Response(None, headers={"allow": allowed})

    return options


def _dependencies() -> dict[str, Provide]:
    """What routes may name as parameters.

    Each asks for the one before it: those that do not need each other Litestar fills in tasks,
    and every request would wait for four more turns of the event loop.
    """

    def the_service(request: Request[Any, Any, Any]) -> BrokerService:
        return behind_door(request.scope).service

    def the_caller(
        request: Request[Any, Any, Any],
        service: NamedDependency[BrokerService],  # noqa: ARG001
    ) -> Caller:
        return caller_in(request.scope, Door.HTTP)

    def the_closing(
        request: Request[Any, Any, Any],
        caller: NamedDependency[Caller],  # noqa: ARG001
    ) -> asyncio.Event:
        return behind_door(request.scope).closing

    def the_readiness(
        request: Request[Any, Any, Any],
        closing: NamedDependency[asyncio.Event],  # noqa: ARG001
    ) -> Readiness:
        return behind_door(request.scope).readiness

    def the_exposition(
        request: Request[Any, Any, Any],
        readiness: NamedDependency[Readiness],  # noqa: ARG001
    ) -> Exposition:
        return behind_door(request.scope).exposition

    return {
        "service": Provide(the_service, sync_to_thread=False),
        "caller": Provide(the_caller, sync_to_thread=False),
        "closing": Provide(the_closing, sync_to_thread=False),
        "readiness": Provide(the_readiness, sync_to_thread=False),
        "exposition": Provide(the_exposition, sync_to_thread=False),
    }


async def check_query(
    connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler
) -> None:
    """Refuse a query parameter that is unknown or given twice, rather than ignore it.

    It awaits nothing, but Litestar calls plain functions in a thread.
    """
    text = connection.scope["query_string"]
    if not text:
        return
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise Refusal(400, "invalid_request", "the query is not percent-encoded UTF-8") from None
    known = _query_names(handler)
    for name, times in Counter(name for name, _ in pairs).items():
        if name not in known:
            takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
            raise Refusal(400, "invalid_request", f"{name}: no such query parameter; {takes}")
        if times > 1:
            raise Refusal(400, "invalid_request", f"{name}: given {times} times")


def _query_names(handler: BaseRouteHandler) -> set[str]:
    reserved = {"request", "data", *handler.resolve_dependencies()}
    in_path = {name for path in handler.paths for name in _path_names(path)}
    names = set()
    for name, field in handler.parsed_fn_signature.parameters.items():
        if name not in reserved and name not in in_path:
            names.add(getattr(field.kwarg_definition, "name", None) or name)
    return names


def _path_names(path: str) -> list[str]:
    return [part[1:-1].partition(":")[0] for part in path.split("/") if part.startswith("{")]
