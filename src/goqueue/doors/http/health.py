"""/healthz, /readyz and the front page."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from msgspec import Meta

from goqueue import __version__
from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.readiness import Readiness
from goqueue.model.caller import ANONYMOUS, Caller
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import OPEN, Need, Refused

# Enough to see what is wrong; the metrics have the number, the topics all of them.
OFFLINE_LISTED_MAX: Final = 100


class Health(msgspec.Struct, frozen=True):
    status: str


class OfflinePartition(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    reason: str


class Ready(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    node_id: int
    cluster_id: str
    offline_partition_count: int
    offline_partitions: Annotated[
        list[OfflinePartition],
        Meta(description=f"The first {OFFLINE_LISTED_MAX}. The others are served as usual."),
    ]


class FrontPage(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    version: str
    node_id: int
    cluster_id: str
    links: dict[str, str]


_LINKS: Final = {
    "topics": "/topics",
    "documentation": "/docs",
    "openapi": "/openapi.json",
    "metrics": "/metrics",
    "health": "/healthz",
    "readiness": "/readyz",
}


@get("/healthz", tags=["Operations"], responses=errors(400), opt={"needs": OPEN})
async def health() -> Health:
    """Whether the process answers."""
    return Health("ok")


@get(
    "/readyz",
    tags=["Operations"],
    responses=errors(400),
    # Those who watch a broker need not know its topics: partitions of others are left out.
    opt={"needs": (Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.LEFT_OUT),)},
)
async def ready(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    readiness: NamedDependency[Readiness],
) -> Ready:
    """Whether the broker takes requests. An offline partition does not make it unready."""
    reason = readiness.reason_not_ready()
    if reason is not None:
        raise Refusal(503, "not_ready", reason)
    administration = service.administration
    # With security on, those who did not log in see how the broker is, and nothing else.
    is_known = not service.web_logins.is_on or caller.principal != ANONYMOUS
    offline = administration.offline_partitions(caller) if is_known else []
    return Ready(
        status="ready",
        node_id=administration.node_id,
        cluster_id=administration.cluster.cluster_id,
        offline_partition_count=len(offline),
        offline_partitions=[
            OfflinePartition(each.topic, each.index, each.reason)
            for each in offline[:OFFLINE_LISTED_MAX]
        ],
    )


@get("/", tags=["Operations"], responses=errors(400), opt={"needs": OPEN})
async def front_page(service: NamedDependency[BrokerService]) -> FrontPage:
    """What this is, and where everything else is."""
    return FrontPage(
        name="GoQueue",
        version=__version__,
        node_id=service.administration.node_id,
        cluster_id=service.administration.cluster.cluster_id,
        links=_LINKS,
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (health, ready, front_page)
