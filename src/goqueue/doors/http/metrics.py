"""GET /metrics: Prometheus' text format, read from the broker when asked."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from goqueue import __version__
from goqueue.broker.delay_stats import LATENESS_BOUNDS_MS, DelayStats
from goqueue.broker.messages import LogDirView
from goqueue.broker.partition import Partition
from goqueue.broker.service import Broker
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.traffic import Traffic
from goqueue.state.metadata_image import MetadataImage

# Eight series each: beyond this a scrape takes long and Prometheus suffers more than it helps.
# Sums per broker stay complete, and what is left out is counted.
PARTITIONS_WITH_SERIES_MAX: Final = 10_000

_GAUGES: Final[Sequence[tuple[str, str, Callable[[Partition], float]]]] = (
    ("log_size_bytes", "Bytes on disk.", lambda p: p.log.size_bytes),
    ("log_segments", "Segments on disk.", lambda p: p.log.segment_count),
    ("log_start_offset", "First offset that is kept.", lambda p: p.log_start_offset),
    ("log_end_offset", "Offset of the next message.", lambda p: p.log_end_offset),
    ("high_watermark", "Offset up to which messages are readable.", lambda p: p.high_watermark),
)
_COUNTERS: Final[Sequence[tuple[str, str, Callable[[Partition], float]]]] = (
    ("messages_in", "Messages appended since the start.", lambda p: p.messages_in),
    ("bytes_in", "Bytes appended since the start.", lambda p: p.bytes_in),
    ("bytes_out", "Bytes read since the start.", lambda p: p.bytes_out),
)


class _Figures(NamedTuple):
    """What only the event loop may look at; the rest are plain numbers, read by any thread."""

    partitions: Sequence[Partition]
    offline_count: int
    disk: LogDirView
    image: MetadataImage
    answered: Mapping[tuple[str, int], int]
    delays: DelayStats


class BrokerCollector(Collector):
    def __init__(self, broker: Broker, traffic: Traffic) -> None:
        self._broker = broker
        self._traffic = traffic
        self._figures = self._look()

    def refresh(self) -> None:
        self._figures = self._look()

    def _look(self) -> _Figures:
        broker = self._broker
        return _Figures(
            partitions=tuple(broker.hosted),
            offline_count=len(broker.offline_partitions),
            disk=broker.log_dirs(),
            image=broker.image,
            answered=dict(self._traffic.answered),
            delays=broker.delays.stats(),
        )

    def collect(self) -> Iterable[Metric]:
        figures = self._figures
        yield from self._broker_metrics(figures)
        yield from self._partition_metrics(figures)
        yield from self._http_metrics(figures)
        yield from _delay_metrics(figures.delays)

    def _broker_metrics(self, figures: _Figures) -> Iterable[Metric]:
        broker = self._broker
        info = GaugeMetricFamily(
            "goqueue_build_info", "Always 1.", labels=("version", "node_id", "cluster_id")
        )
        info.add_metric((__version__, str(broker.node_id), broker.cluster_id), 1)
        yield info
        image, disk = figures.image, figures.disk
        yield _gauge("goqueue_brokers", "Brokers registered.", len(image.brokers))
        yield _gauge("goqueue_topics", "Topics.", len(image.topics))
        yield _gauge("goqueue_partitions", "Partitions on this broker.", len(figures.partitions))
        yield _gauge(
            "goqueue_offline_partitions",
            "Partitions of this broker that storage failures took offline.",
            figures.offline_count,
        )
        yield _gauge("goqueue_disk_total_bytes", "Size of the data disk.", disk.total_bytes)
        yield _gauge("goqueue_disk_usable_bytes", "Free on the data disk.", disk.usable_bytes)

    def _partition_metrics(self, figures: _Figures) -> Iterable[Metric]:
        partitions = sorted(figures.partitions, key=lambda partition: partition.name)
        shown = partitions[:PARTITIONS_WITH_SERIES_MAX]
        labels = [(p.name.topic, str(p.name.partition)) for p in shown]
        kinds = ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS))
        for family_type, rows in kinds:
            for name, doc, read in rows:
                family = family_type(
                    f"goqueue_partition_{name}", doc, labels=("topic", "partition")
                )
                for label, partition in zip(labels, shown, strict=True):
                    family.add_metric(label, read(partition))
                yield family
        yield _gauge(
            "goqueue_log_size_bytes",
            "Bytes of all partitions on disk.",
            sum(partition.log.size_bytes for partition in partitions),
        )
        yield _gauge(
            "goqueue_partitions_without_series",
            f"Partitions beyond the first {PARTITIONS_WITH_SERIES_MAX}, which have no series.",
            len(partitions) - len(shown),
        )

    def _http_metrics(self, figures: _Figures) -> Iterable[Metric]:
        traffic = self._traffic
        yield _gauge("goqueue_http_connections", "Open HTTP connections.", traffic.connections)
        yield _gauge(
            "goqueue_http_requests_in_flight", "HTTP requests not answered yet.", traffic.in_flight
        )
        answered = CounterMetricFamily(
            "goqueue_http_requests", "HTTP requests answered.", labels=("method", "status")
        )
        for (method, status), count in sorted(figures.answered.items()):
            answered.add_metric((method, str(status)), count)
        yield answered


def _delay_metrics(delays: DelayStats) -> Iterable[Metric]:
    pending = GaugeMetricFamily(
        "goqueue_delayed_pending", "Delayed messages that wait.", labels=("topic",)
    )
    delivered = CounterMetricFamily(
        "goqueue_delayed_delivered", "Delayed messages delivered.", labels=("topic",)
    )
    cancelled = CounterMetricFamily(
        "goqueue_delayed_cancelled", "Delayed messages cancelled.", labels=("topic",)
    )
    for topic in delays.topics:
        pending.add_metric((topic.topic,), topic.pending)
        delivered.add_metric((topic.topic,), topic.delivered)
        cancelled.add_metric((topic.topic,), topic.cancelled)
    yield from (pending, delivered, cancelled)
    bounds = [*(str(bound_ms / 1000) for bound_ms in LATENESS_BOUNDS_MS), "+Inf"]
    totals = accumulate(delays.lateness_counts)
    yield HistogramMetricFamily(
        "goqueue_delayed_lateness_seconds",
        "From a delayed message's due time to its append.",
        buckets=list(zip(bounds, totals, strict=True)),
        sum_value=delays.lateness_sum_ms / 1000,
    )


def _gauge(name: str, doc: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, doc, value=value)


class Exposition:
    """The figures of one broker; two brokers in one process (as in tests) do not mix."""

    def __init__(self, broker: Broker, traffic: Traffic) -> None:
        self._collector = BrokerCollector(broker, traffic)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self._collector)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    async def render(self) -> bytes:
        # 40 ms for a thousand partitions: other requests do not wait for it.
        self._collector.refresh()
        return await asyncio.to_thread(generate_latest, self._registry)


@get("/metrics", tags=["Operations"], media_type="text/plain", responses=errors(400))
async def metrics(exposition: NamedDependency[Exposition]) -> Response[bytes]:
    """Figures for Prometheus."""
    return Response(await exposition.render(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (metrics,)
