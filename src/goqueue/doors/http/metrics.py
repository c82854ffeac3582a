"""GET /metrics: Prometheus' text format, read from the broker when asked."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from goqueue import __version__
from goqueue.broker.partition import Partition
from goqueue.broker.service import Broker
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.traffic import Traffic

# Seven series each: beyond this a scrape takes seconds and Prometheus suffers more than it helps.
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


class BrokerCollector(Collector):
    def __init__(self, broker: Broker, traffic: Traffic) -> None:
        self._broker = broker
        self._traffic = traffic

    def collect(self) -> Iterable[Metric]:
        yield from self._broker_metrics()
        yield from self._partition_metrics()
        yield from self._http_metrics()

    def _broker_metrics(self) -> Iterable[Metric]:
        broker = self._broker
        info = GaugeMetricFamily(
            "goqueue_build_info", "Always 1.", labels=("version", "node_id", "cluster_id")
        )
        info.add_metric((__version__, str(broker.node_id), broker.cluster_id), 1)
        yield info
        image = broker.image
        yield _gauge("goqueue_brokers", "Brokers registered.", len(image.brokers))
        yield _gauge("goqueue_topics", "Topics.", len(image.topics))
        yield _gauge("goqueue_partitions", "Partitions on this broker.", len(broker.hosted))
        yield _gauge(
            "goqueue_offline_partitions",
            "Partitions of this broker that storage failures took offline.",
            len(broker.offline_partitions),
        )
        disk = broker.log_dirs()
        yield _gauge("goqueue_disk_total_bytes", "Size of the data disk.", disk.total_bytes)
        yield _gauge("goqueue_disk_usable_bytes", "Free on the data disk.", disk.usable_bytes)

    def _partition_metrics(self) -> Iterable[Metric]:
        partitions = sorted(self._broker.hosted, key=lambda partition: partition.name)
        shown = partitions[:PARTITIONS_WITH_SERIES_MAX]
        labels = [(p.name.topic, str(p.name.partition)) for p in shown]
        for name, doc, read in _GAUGES:
            gauge = GaugeMetricFamily(
                f"goqueue_partition_{name}", doc, labels=("topic", "partition")
            )
            for label, partition in zip(labels, shown, strict=True):
                gauge.add_metric(label, read(partition))
            yield gauge
        for name, doc, read in _COUNTERS:
            counter = CounterMetricFamily(
                f"goqueue_partition_{name}", doc, labels=("topic", "partition")
            )
            for label, partition in zip(labels, shown, strict=True):
                counter.add_metric(label, read(partition))
            yield counter
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

    def _http_metrics(self) -> Iterable[Metric]:
        traffic = self._traffic
        yield _gauge("goqueue_http_connections", "Open HTTP connections.", traffic.connections)
        yield _gauge(
            "goqueue_http_requests_in_flight", "HTTP requests not answered yet.", traffic.in_flight
        )
        answered = CounterMetricFamily(
            "goqueue_http_requests", "HTTP requests answered.", labels=("method", "status")
        )
        for (method, status), count in sorted(traffic.answered.items()):
            answered.add_metric((method, str(status)), count)
        yield answered


def _gauge(name: str, doc: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, doc, value=value)


def build_registry(broker: Broker, traffic: Traffic) -> CollectorRegistry:
    """A registry of our own: two brokers in one process (as in tests) do not mix."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerCollector(broker, traffic))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


@get("/metrics", tags=["Operations"], media_type="text/plain", responses=errors(400))
async def metrics(registry: NamedDependency[CollectorRegistry]) -> Response[bytes]:
    """Figures for Prometheus."""
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (metrics,)
