"""/healthz, /readyz and the front page."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from msgspec import Meta

from goqueue import __version__
from goqueue.broker.node import Node
from goqueue.doors.http.errors import Refusal
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.readiness import Readiness

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


@get("/healthz", tags=["Operations"], responses=errors(400))
async def health() -> Health:
    """Whether the process answers."""
    return Health("ok")


@get("/readyz", tags=["Operations"], responses=errors(400))
async def ready(broker: NamedDependency[Node], readiness: NamedDependency[Readiness]) -> Ready:
    """Whether the broker takes requests. An offline partition does not make it unready."""
    reason = readiness.reason_not_ready()
    if reason is not None:
        raise Refusal(503, "not_ready", reason)
    offline = broker.offline_partitions
    return Ready(
        status="ready",
        node_id=broker.node_id,
        cluster_id=broker.cluster_id,
        offline_partition_count=len(offline),
        offline_partitions=[
            OfflinePartition(name.topic, name.partition, why)
            for name, why in sorted(offline.items())[:OFFLINE_LISTED_MAX]
        ],
    )


@get("/", tags=["Operations"], responses=errors(400))
async def front_page(broker: NamedDependency[Node]) -> FrontPage:
    """What this is, and where everything else is."""
    return FrontPage(
        name="GoQueue",
        version=__version__,
        node_id=broker.node_id,
        cluster_id=broker.cluster_id,
        links=_LINKS,
    )


ROUTES: Final[Sequence[HTTPRouteHandler]] = (health, ready, front_page)
