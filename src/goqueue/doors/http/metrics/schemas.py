"""The schema registry."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue.doors.http.metrics.families import Labels, counter, gauges
from goqueue.model.measuring.figures import SchemaFigures


def families(figures: SchemaFigures) -> Iterable[Metric]:
    subjects: list[tuple[Labels, int]] = []
    if figures.subjects is not None:
        in_use, deleted = figures.subjects
        subjects = [(("active",), in_use), (("deleted",), deleted)]
    types = [((each.lower(),), count) for each, count in (figures.types or {}).items()]
    yield gauges("goqueue_schema_subjects", "Subjects registered.", ("state",), subjects)
    yield gauges("goqueue_schemas", "Schemas registered.", ("type",), types)
    yield counter(
        "goqueue_schema_worker_starts",
        "Starts of the process that parses schemas; many mean that schemas make it fail.",
        figures.worker_starts,
    )
    yield counter(
        "goqueue_schema_refused_messages",
        "Messages refused because they do not fit their topic's schema.",
        figures.refused_messages,
    )
