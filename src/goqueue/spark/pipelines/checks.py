"""Everything that can be known to be wrong before a pipeline starts: its file, then the broker,
then what Spark makes of it. Each stage tells all that it finds, and only a sound one is followed.
"""

import asyncio
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.client.admin import KafkaAdmin
from goqueue.client.errors import BrokerUnreachable
from goqueue.client.log_cluster import LogCluster
from goqueue.client.profiles import security_at
from goqueue.model.errors import GoQueueError, UnknownTopic
from goqueue.spark.pipelines.definition import PipelineDefinition, read_definition
from goqueue.spark.pipelines.definition_file import read_definition_file
from goqueue.spark.pipelines.field_lines import FieldPath
from goqueue.spark.pipelines.kinds import SECTIONS, find_kind
from goqueue.spark.pipelines.kinds.kind import Kind
from goqueue.spark.pipelines.problems import InvalidPipeline, Problems

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDED: Final = ("pyspark", "pyarrow", "numba", "deltalake")


class BrokerAway(InvalidPipeline):
    is_broker_away = True


class SparkNotInstalled(GoQueueError):
    code = "spark_not_installed"


@dataclass(frozen=True, slots=True)
class Pipeline:
    definition: PipelineDefinition
    kind: Kind


def load_pipeline(path: Path) -> Pipeline:
    """Read and check the file; `InvalidPipeline` has all that is wrong with it."""
    problems = Problems()
    file = read_definition_file(path)
    definition = read_definition(file, problems, SECTIONS)
    if definition.kind not in SECTIONS:
        problems.raise_any()
    kind = find_kind(definition.kind)
    if definition.sources and not kind.takes_sources:
        file.add_problem(problems, ("source",), f"kind {definition.kind} has no sources")
    if definition.sink is not None and not kind.takes_sink:
        file.add_problem(problems, ("sink",), f"kind {definition.kind} has no sink")
    if definition.sink is None and kind.takes_sink and kind.needs_sink:
        file.add_problem(
            problems, ("sink",), 'missing; write [sink] with topic = "…" or table = "path"'
        )
    kind.check(definition, problems)
    problems.raise_any()
    return Pipeline(definition, kind)


def check_installed() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise SparkNotInstalled(
            f"pipelines need {', '.join(missing)}; install with: pip install 'goqueue[spark]'"
        )


def check_broker(pipeline: Pipeline) -> None:
    """The broker answers, and has the topics."""
    definition, problems = pipeline.definition, Problems()
    try:
        with LogCluster(
            definition.bootstrap_servers, security=security_at(definition.bootstrap_servers)
        ) as cluster:
            for topic, place in _topics(pipeline).items():
                try:
                    cluster.topics([topic])
                except BrokerUnreachable:
                    raise
                except GoQueueError as error:
                    definition.file.add_problem(problems, place, error.message)
            _check_patterns(cluster, definition, problems)
    except BrokerUnreachable as error:
        definition.file.add_problem(
            problems,
            ("bootstrap", "servers"),
            f"{error.message}; start one with `goqueue serve`, or name another here or with "
            "$GOQUEUE_BOOTSTRAP",
        )
        raise BrokerAway(problems) from None
    problems.raise_any()


def check_spark(spark: "SparkSession", pipeline: Pipeline) -> None:
    problems = Problems()
    pipeline.kind.analyse(spark, pipeline.definition, problems)
    problems.raise_any()


def make_sink_topic(definition: PipelineDefinition) -> None:
    """Where the sink says with how many partitions, and it is not there yet."""
    sink = definition.sink
    if sink is None or sink.topic is None or sink.partitions is None:
        return
    with LogCluster(
        definition.bootstrap_servers, security=security_at(definition.bootstrap_servers)
    ) as cluster:
        try:
            cluster.topics([sink.topic])
        except UnknownTopic:
            asyncio.run(_create(definition.bootstrap_servers, sink.topic, sink.partitions))


async def _create(bootstrap_servers: str, topic: str, partitions: int) -> None:
    async with KafkaAdmin(bootstrap_servers, security_at(bootstrap_servers)) as admin:
        await admin.create_topic(topic, partitions=partitions)


def _topics(pipeline: Pipeline) -> dict[str, FieldPath]:
    """Every topic that must be there, with the field that names it."""
    definition = pipeline.definition
    found: dict[str, FieldPath] = {}
    for source in definition.sources:
        for topic in source.topics:
            found.setdefault(topic, (*source.place, "topic"))
    sink = definition.sink
    if sink is not None and sink.topic is not None and sink.partitions is None:
        found.setdefault(sink.topic, ("sink", "topic"))
    return found | pipeline.kind.topics(definition)


def _check_patterns(
    cluster: LogCluster, definition: PipelineDefinition, problems: Problems
) -> None:
    patterns = {
        (*source.place, "topicPattern"): pattern
        for source in definition.sources
        if (pattern := source.options.get("topicPattern")) is not None
    }
    # Also where no topic is named: does the broker answer?
    names = cluster.topics() if patterns or not definition.sources else {}
    for place, pattern in patterns.items():
        if not any(re.fullmatch(pattern, name) for name in names):
            definition.file.add_problem(
                problems, place, f"no topic matches {pattern!r}; see `goqueue topics list`"
            )
