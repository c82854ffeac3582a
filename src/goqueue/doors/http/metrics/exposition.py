"""One scrape after another: figures, written as text in a thread."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from goqueue.doors.http.metrics import (
    bounds,
    calls,
    clients,
    cluster,
    delays,
    groups,
    partitions,
    producers,
    queues,
    schemas,
    storage,
    tracing,
    traffic,
)
from goqueue.doors.http.metrics.families import Families
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.traffic import Traffic
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need

# Litestar adds the character set; a second one would make Prometheus 3 refuse the answer.
MEDIA_TYPE: Final = "text/plain; version=0.0.4"


class _Figures(Collector):
    """What one scrape has read."""

    def __init__(self, parts: Sequence[Families]) -> None:
        self._parts = parts

    def collect(self) -> Iterable[Metric]:
        for families in self._parts:
            yield from families()


class Exposition:
    """The figures of one broker; two brokers in one process (as in tests) do not mix."""

    def __init__(self, service: BrokerService, http: Traffic) -> None:
        self._service = service
        self._http = http
        self._process = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)
        # Several at once would only slow each other down, and everything else.
        self._turn = asyncio.Lock()

    async def render(self, caller: Caller) -> bytes:
        async with self._turn:
            figures = _Figures([*await self._read(caller), self._process.collect])
            registry = CollectorRegistry(auto_describe=False)
            registry.register(figures)
            return await asyncio.to_thread(generate_latest, registry)

    async def _read(self, caller: Caller) -> list[Families]:
        measuring = self._service.measuring
        figures = await measuring.figures(
            caller,
            groups_max=bounds.GROUPS_WITH_SERIES_MAX,
            queues_max=bounds.QUEUES_WITH_SERIES_MAX,
        )
        return [
            partial(cluster.families, figures.cluster),
            partial(calls.families, figures.calls),
            partial(partitions.families, figures.partitions),
            partial(producers.families, figures.transactions, figures.producers),
            partial(groups.families, figures.groups),
            partial(queues.families, figures.queues),
            partial(delays.families, figures.delays, figures.now_ms),
            partial(storage.families, figures.storage),
            partial(schemas.families, figures.schemas),
            partial(tracing.families, figures.tracing),
            partial(clients.families, figures.clients),
            traffic.read(measuring.traffic, self._http),
        ]


@get(
    "/metrics",
    tags=["Operations"],
    opt={"needs": (Need(Resource.CLUSTER, Verb.DESCRIBE),)},
    media_type="text/plain",
    responses=errors(400, 403),
)
async def metrics(
    exposition: NamedDependency[Exposition], caller: NamedDependency[Caller]
) -> Response[bytes]:
    """Figures for Prometheus."""
    return Response(await exposition.render(caller), media_type=MEDIA_TYPE)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (metrics,)
