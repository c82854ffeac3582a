"""State, lag and throughput of this machine's pipelines, as Prometheus reads them.

Made of what runs leave in their folders, so that a pipeline whose process died is seen as well, and
one that only runs now and then.
"""

import datetime
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Thread

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from goqueue.spark.pipelines.progress import Progress
from goqueue.spark.pipelines.run_status import RunState, RunStatus
from goqueue.spark.pipelines.state_folder import known_pipelines


class PipelineCollector(Collector):
    def collect(self) -> Iterator[Metric]:
        found = [folder.status() for folder in known_pipelines()]
        yield from _run_metrics(found)
        yield from _query_metrics(found)


def pipeline_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(PipelineCollector())
    return registry


def metrics_text() -> str:
    return generate_latest(pipeline_registry()).decode()


def serve_metrics(host: str, port: int) -> tuple[int, Thread]:
    """At /metrics, made anew for each request; gives the port and the thread that serves."""
    server, serving = start_http_server(port, host, pipeline_registry())
    return server.server_port, serving


def write_textfile(path: Path) -> None:
    """At once and as a whole, as node_exporter's textfile collector wants it."""
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(metrics_text(), encoding="utf-8")
    draft.replace(path)


def _run_metrics(found: Iterable[RunStatus]) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "goqueue_pipeline_state",
        "1 for the state that the pipeline is in.",
        labels=["pipeline", "kind", "state"],
    )
    times = {
        "started": GaugeMetricFamily(
            "goqueue_pipeline_started_timestamp_seconds",
            "When the latest run began.",
            labels=["pipeline"],
        ),
        "succeeded": GaugeMetricFamily(
            "goqueue_pipeline_succeeded_timestamp_seconds",
            "When a run last did all there was, or was stopped.",
            labels=["pipeline"],
        ),
    }
    restarts = CounterMetricFamily(
        "goqueue_pipeline_restarts",
        "How often `run --restart` began the pipeline again.",
        labels=["pipeline"],
    )
    for status in found:
        for each in RunState:
            state.add_metric([status.name, status.kind, str(each)], float(each is status.state))
        for name, text in (("started", status.started_at), ("succeeded", status.succeeded_at)):
            if text:
                times[name].add_metric([status.name], _seconds(text))
        restarts.add_metric([status.name], status.restarts)
    yield from (state, *times.values(), restarts)


def _query_metrics(found: Iterable[RunStatus]) -> Iterator[Metric]:
    labels = ["pipeline", "query"]
    lag = GaugeMetricFamily(
        "goqueue_pipeline_lag_records", "Records that the query has not read yet.", labels=labels
    )
    rows = CounterMetricFamily(
        "goqueue_pipeline_rows", "Rows read since the run began.", labels=labels
    )
    speed = GaugeMetricFamily(
        "goqueue_pipeline_rows_per_second", "Of the latest batch.", labels=labels
    )
    seen = GaugeMetricFamily(
        "goqueue_pipeline_progress_timestamp_seconds", "When a batch last ended.", labels=labels
    )
    for status in found:
        for written in status.progress.values():
            progress = Progress.from_json(written)
            place = [status.name, progress.query]
            if progress.lag is not None:
                lag.add_metric(place, progress.lag)
            rows.add_metric(place, progress.total_rows)
            speed.add_metric(place, progress.rows_per_second)
            seen.add_metric(place, progress.at_ms / 1000)
    yield from (lag, rows, speed, seen)


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()
