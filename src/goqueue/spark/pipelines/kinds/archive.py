"""A topic into a Delta table that keeps what the topic does not."""

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError
from goqueue.model.names import check_topic_name
from goqueue.spark.archive.archive import (
    DEFAULT_BATCH_RECORDS,
    Archive,
    archive_writer,
    make_retention_wait,
)
from goqueue.spark.archive.upkeep import MIN_KEEP_HOURS, Upkeep
from goqueue.spark.pipelines.definition import PipelineDefinition
from goqueue.spark.pipelines.field_lines import FieldPath
from goqueue.spark.pipelines.fields import Fields
from goqueue.spark.pipelines.kinds.kind import Kind, Run, RunContext
from goqueue.spark.pipelines.problems import Problems
from goqueue.spark.pipelines.sinks import trigger_arguments
from goqueue.spark.source.options import REGISTRY_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECTION: Final = "archive"
_WAIT: Final = "wait"
_NEVER: Final = "never"
_HOUR_MS: Final = 3_600_000
_MAX: Final = 1_000_000_000

_DEFINITION: Final = """\
# Keeps all records of a topic in a Delta table. Try it: goqueue pipeline check .   then   run .
name = "{name}"
kind = "archive"
# bootstrap.servers = "127.0.0.1:9092"     # else $GOQUEUE_BOOTSTRAP, else this

[archive]
topic = "orders"
table = "archive/orders"                   # a folder beside this file, or an address with a scheme
# format = "avro"                          # json, protobuf: the fields as columns, by the registry
# group = "archive-{name}"                 # its committed offsets say what is archived
# retention = "wait"                       # the topic keeps segments until they are archived
# compactEvery = 50                        # commits between compactions of small files; 0: never
# vacuumAfter = "7d"                       # how long replaced files stay; or never
# failOnDataLoss = true                    # an error where the topic lost records unarchived
# maxOffsetsPerTrigger = 2000000           # records of a batch at most

[run]
trigger = "1m"                             # or available-now: all there is, then end
"""


class ArchiveKind(Kind):
    takes_sources = False
    takes_sink = False

    def example(self, name: str) -> dict[str, str]:
        return {"pipeline.toml": _DEFINITION.format(name=name)}

    def check(self, definition: PipelineDefinition, problems: Problems) -> None:
        _read(definition, problems, checkpoint="")

    def topics(self, definition: PipelineDefinition) -> dict[str, FieldPath]:
        archive, _ = _read(definition, Problems(), checkpoint="")
        return {archive.topic: (_SECTION, "topic")} if archive.topic else {}

    def start(
        self, spark: "SparkSession", definition: PipelineDefinition, context: RunContext
    ) -> Run:
        archive, is_waited_for = _read(definition, Problems(), checkpoint=context.checkpoint)

        def tell(line: str) -> None:
            context.say(f"{definition.name}: {line}")

        writer = archive_writer(spark, archive, tell).queryName(definition.name)
        if is_waited_for:
            make_retention_wait(archive)
            context.say(f"{archive.topic} keeps its segments until they are archived")
        writer = writer.trigger(**trigger_arguments(context))
        return Run(queries=[writer.start()])


def _read(
    definition: PipelineDefinition, problems: Problems, *, checkpoint: str
) -> tuple[Archive, bool]:
    """What to archive, and whether retention is to wait for it."""
    fields = definition.section(_SECTION, problems)
    topic = fields.text("topic", required='name what to archive: topic = "orders"')
    table = fields.text("table", required='say where to: table = "archive/orders"')
    if topic:
        try:
            check_topic_name(topic)
        except GoQueueError as error:
            fields.problem("topic", error.message)
    compact_every = fields.number("compactEvery", minimum=0, maximum=_MAX)
    upkeep = Upkeep(
        compact_every=Upkeep().compact_every if compact_every is None else compact_every,
        keep_hours=_read_keep_hours(fields),
    )
    archive = Archive(
        bootstrap_servers=definition.bootstrap_servers,
        topic=topic,
        table=definition.path_text(table),
        group=fields.text("group", f"archive-{definition.name}"),
        checkpoint=checkpoint,
        format=fields.choice("format", ("binary", *REGISTRY_FORMATS), "binary"),
        registry_url=fields.text("schema.registry.url"),
        max_batch_records=fields.number("maxOffsetsPerTrigger", minimum=1, maximum=_MAX)
        or DEFAULT_BATCH_RECORDS,
        fail_on_data_loss=fields.flag("failOnDataLoss", default=True),
        upkeep=upkeep,
    )
    is_waited_for = fields.choice("retention", (_WAIT, "ignore"), "ignore") == _WAIT
    fields.finish()
    return archive, is_waited_for


def _read_keep_hours(fields: Fields) -> int:
    if fields.text("vacuumAfter") == _NEVER:
        return 0
    keep_ms = fields.duration_ms("vacuumAfter")
    if keep_ms is None:
        return MIN_KEEP_HOURS
    keep_hours = keep_ms // _HOUR_MS
    if keep_hours < MIN_KEEP_HOURS:
        fields.problem(
            "vacuumAfter",
            "would delete files that readers and slow tasks still need; write at least "
            f'"{MIN_KEEP_HOURS // 24}d", or "{_NEVER}" to keep all',
        )
    return max(keep_hours, MIN_KEEP_HOURS)
