"""/clients/metrics: what Kafka clients pushed of themselves (KIP-714)."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.model.caller import Caller
from goqueue.model.client_metrics.messages import ClientView
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

_LIMIT_DEFAULT: Final = 20
# Each has some hundred values: 2 MB of answer, or five times as much of clients that mean to.
_LIMIT_MAX: Final = 100


class ClientMetric(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    kind: Annotated[
        Literal["gauge", "counter"], Meta(description="counter: only grows while the client runs.")
    ]
    attributes: dict[str, str]
    value: Annotated[float | None, Meta(description="null: the client says that it is no number.")]


class PushingClient(msgspec.Struct, frozen=True, rename="camel"):
    client_id: str
    client_instance_id: Annotated[str, Meta(description="As the client and Kafka's tools show it.")]
    software_name: str
    software_version: str
    address: str
    interval_ms: Annotated[int, Meta(description="How often it is to push.")]
    subscribed: Annotated[list[str], Meta(description="Prefixes of what it is to push; * is all.")]
    last_push_ms: Annotated[int | None, Meta(description="Since 1970; null: it has not pushed.")]
    metrics: list[ClientMetric]


class PushingClients(msgspec.Struct, frozen=True, rename="camel"):
    clients: list[PushingClient]
    total: Annotated[int, Meta(description="How many there are, with those left out here.")]


@get(
    "/clients/metrics",
    tags=["Operations"],
    opt={"needs": (Need(Resource.CLUSTER, Verb.DESCRIBE),)},
    responses=errors(400, 403),
)
async def client_metrics(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    client_id: Annotated[
        str | None, QueryParameter(name="clientId", max_length=1_000, description="Of this one.")
    ] = None,
    limit: Annotated[
        int, QueryParameter(ge=1, le=_LIMIT_MAX, description="Clients in the answer at most.")
    ] = _LIMIT_DEFAULT,
) -> PushingClients:
    """Kafka clients that push their metrics to this broker, by name, with the last values."""
    found = [
        view
        for view in service.client_metrics.figures(caller).clients
        if client_id is None or view.client.client_id == client_id
    ]
    return PushingClients([_shown(view) async for view in in_slices(found[:limit])], len(found))


def _shown(view: ClientView) -> PushingClient:
    client = view.client
    return PushingClient(
        client_id=client.client_id,
        client_instance_id=client.instance,
        software_name=client.software.name,
        software_version=client.software.version,
        address=client.address,
        interval_ms=view.subscribed.interval_ms,
        subscribed=list(view.subscribed.metrics),
        last_push_ms=view.last_push_ms,
        metrics=[
            ClientMetric(
                name=name.metric,
                kind=series.kind.value,
                attributes=dict(name.attributes),
                value=series.value,
            )
            for name, series in sorted(view.series.items())
        ],
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (client_metrics,)
