"""Flushes, retention and compaction."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics.families import counter, gauge, histogram
from goqueue.model.measuring.figures import StorageFigures


def families(figures: StorageFigures) -> Iterable[Metric]:
    yield histogram(
        "goqueue_fsync_duration_seconds",
        "How long flushes of partition logs took.",
        figures.flushes,
    )
    yield gauge(
        "goqueue_open_log_files",
        "Files of logs that are open; those unused for longest are closed to make room.",
        figures.open_files,
    )
    yield gauge(
        "goqueue_open_log_files_max",
        "How many of them there may be: max.open.log.files, or half of what the process may open.",
        figures.open_files_max,
    )
    yield counter(
        "goqueue_retention_unarchived_bytes",
        "Deleted before retention.archive.group had archived it.",
        figures.unarchived_bytes,
    )
    yield counter(
        "goqueue_batches_passed_over",
        "Stored batches that could not be decoded, or would unpack to too much.",
        figures.passed_over_batches,
    )
    yield counter("goqueue_compaction_runs", "Compactions carried out.", figures.compactions)
    yield counter(
        "goqueue_compaction_failures", "Compactions that failed.", figures.failed_compactions
    )
    yield counter(
        "goqueue_compaction_read_bytes",
        "Bytes of logs before compaction.",
        figures.compaction_read_bytes,
    )
    yield counter(
        "goqueue_compaction_written_bytes",
        "Bytes of logs after compaction.",
        figures.compaction_written_bytes,
    )
    yield counter(
        "goqueue_compaction_seconds", "Time spent on compactions.", figures.compaction_seconds
    )
