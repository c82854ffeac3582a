"""Log-ins that failed."""

from collections.abc import Iterable, Mapping

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics.families import counters


def families(failed: Mapping[tuple[str, str], int]) -> Iterable[Metric]:
    yield counters(
        "goqueue_failed_logins",
        "Log-ins that failed, by door and by what was shown.",
        ("door", "by"),
        sorted(failed.items()),
    )
