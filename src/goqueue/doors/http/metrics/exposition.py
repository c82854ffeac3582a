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
    audit,
    bounds,
    calls,
    clients,
    cluster,
    delays,
    groups,
    partitions,
    producers,
    queues,
    quotas,
    schemas,
    storage,
    tls,
    tracing,
    traffic,
)
from goqueue.doors.http.metrics.families import Families
from goqueue.doors.http.metrics.workers import together
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.traffic import Traffic
from goqueue.model.caller import Caller
from goqueue.model.measuring.figures import BrokerFigures
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
    """The figures of one broker; two brokers in one process (as in tests) do not mix.

    Workers of a machine are asked at one port. Whichever is asked tells the figures of all.
    """

    def __init__(self, service: BrokerService, http: Traffic) -> None:
        self._measuring = service.measuring
        self._http = http
        self._process = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)
        # Several at once would only slow each other down, and everything else.
        self._turn = asyncio.Lock()
        self._turn_of_all = asyncio.Lock()
        if self._measuring.is_of_workers:
            self._measuring.offer_to_workers(
                self._write,
                groups_max=bounds.GROUPS_WITH_SERIES_MAX,
                queues_max=bounds.QUEUES_WITH_SERIES_MAX,
            )

    async def render(self, caller: Caller) -> bytes:
        if self._measuring.is_of_workers:
            async with self._turn_of_all:
                texts = await self._measuring.written_by_workers(caller)
                return await asyncio.to_thread(together, texts)
        async with self._turn:
            figures = await self._measuring.figures(
                caller,
                groups_max=bounds.GROUPS_WITH_SERIES_MAX,
                queues_max=bounds.QUEUES_WITH_SERIES_MAX,
            )
            return await self._text(figures)

    async def _write(self, figures: BrokerFigures) -> bytes:
        """For another worker, or this one's part of all."""
        async with self._turn:
            return await self._text(figures)

    async def _text(self, figures: BrokerFigures) -> bytes:
        collected = _Figures([*self._families(figures), self._process.collect])
        registry = CollectorRegistry(auto_describe=False)
        registry.register(collected)
        return await asyncio.to_thread(generate_latest, registry)

    def _families(self, figures: BrokerFigures) -> list[Families]:
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
            partial(quotas.families, figures.quotas),
            tls.read(self._measuring.traffic.tls),
            partial(audit.families, figures.audit),
            traffic.read(self._measuring.traffic, self._http),
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
