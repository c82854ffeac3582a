"""The schema registry."""

from collections import Counter
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from goqueue.broker.node import Node
from goqueue.doors.http.metrics.families import Families, Labels, counter, gauges
from goqueue.model.errors import NotLeader
from goqueue.model.schemas.formats import SchemaType


def read(broker: Node) -> Families:
    subjects: list[tuple[Labels, int]] = []
    schemas: list[tuple[Labels, int]] = []
    try:
        catalogue = broker.schemas.catalogue
    except NotLeader:
        # Being loaded: no figures are better than zeros.
        pass
    else:
        in_use = sum(1 for _ in catalogue.subjects())
        known = sum(1 for _ in catalogue.subjects(deleted=True))
        subjects = [(("active",), in_use), (("deleted",), known - in_use)]
        types = Counter(schema.identity.type for schema in catalogue.schemas.values())
        schemas = [((each.lower(),), types[each]) for each in SchemaType]
    worker_starts, refused = broker.schemas.worker.starts, broker.validation.refused

    def families() -> Iterable[Metric]:
        yield gauges("goqueue_schema_subjects", "Subjects registered.", ("state",), subjects)
        yield gauges("goqueue_schemas", "Schemas registered.", ("type",), schemas)
        yield counter(
            "goqueue_schema_worker_starts",
            "Starts of the process that parses schemas; many mean that schemas make it fail.",
            worker_starts,
        )
        yield counter(
            "goqueue_schema_refused_messages",
            "Messages refused because they do not fit their topic's schema.",
            refused,
        )

    return families
