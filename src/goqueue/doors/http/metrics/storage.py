"""Flushes, retention and compaction."""

from collections.abc import Iterable
from dataclasses import replace

from prometheus_client.metrics_core import Metric

from goqueue.broker.node import Node
from goqueue.doors.http.metrics.families import Families, counter, histogram


def read(broker: Node) -> Families:
    flushes = broker.hosted.flush_latencies.figures()
    counts = replace(broker.compactor.counts)
    unarchived_bytes = sum(each.log.unarchived_deleted_bytes for each in broker.hosted)

    def families() -> Iterable[Metric]:
        yield histogram(
            "goqueue_fsync_duration_seconds", "How long flushes of partition logs took.", flushes
        )
        yield counter(
            "goqueue_retention_unarchived_bytes",
            "Deleted before retention.archive.group had archived it.",
            unarchived_bytes,
        )
        yield counter("goqueue_compaction_runs", "Compactions carried out.", counts.runs)
        yield counter("goqueue_compaction_failures", "Compactions that failed.", counts.failures)
        yield counter(
            "goqueue_compaction_read_bytes", "Bytes of logs before compaction.", counts.bytes_read
        )
        yield counter(
            "goqueue_compaction_written_bytes",
            "Bytes of logs after compaction.",
            counts.bytes_written,
        )
        yield counter("goqueue_compaction_seconds", "Time spent on compactions.", counts.seconds)

    return families
