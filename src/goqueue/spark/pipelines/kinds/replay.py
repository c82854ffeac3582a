"""Records of the past once more into a topic: from a topic or an archive, chosen, at a set pace."""

import dataclasses
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError
from goqueue.spark.option_names import InvalidOption
from goqueue.spark.pipelines.definition import PipelineDefinition
from goqueue.spark.pipelines.field_lines import FieldPath
from goqueue.spark.pipelines.kinds.kind import Kind, Run, RunContext
from goqueue.spark.pipelines.problems import Problems
from goqueue.spark.pipelines.replay_records import ReplayRecords, ReplaySettings
from goqueue.spark.pipelines.replay_work import dry_run, replay
from goqueue.spark.pipelines.spark_errors import plain_reason
from goqueue.spark.source.log_position import PositionKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECTION: Final = "replay"
# Faster than any broker; a larger one is a typing error.
_MAX_RATE: Final = 100_000_000

_DEFINITION: Final = """\
# Sends records of the past once more. Look first: goqueue pipeline run --dry-run .
name = "{name}"
kind = "replay"

[[source]]
topic = "orders"                           # or: table = "path" of an archive, with a name

[replay]
from = 2026-01-01T00:00:00Z                # records of this time or later; or offsets:
to = 2026-01-02T00:00:00Z                  # and before this one
# from = '{{"orders": {{"0": 100, "1": 0}}}}'  # per partition; also: earliest
# to = '{{"orders": {{"0": 200, "1": 50}}}}'   # not included; also: latest
filter = "CAST(value AS STRING) LIKE '%broken%'"   # SQL on key, value, offset, timestamp, headers …
rate = 1000                                # records per second; leave it out for no limit
timestamps = "keep"                        # or now: topics delete by time what is too old
partitions = "by-key"                      # or keep: as they were

[sink]
topic = "{name}"
partitions = 1                             # makes the topic if it is not there
"""


class ReplayKind(Kind):
    has_dry_run = True

    def example(self, name: str) -> dict[str, str]:
        return {"pipeline.toml": _DEFINITION.format(name=name)}

    def check(self, definition: PipelineDefinition, problems: Problems) -> None:
        if len(definition.sources) != 1:
            definition.file.add_problem(
                problems, ("source",), "a replay has one [[source]]: a topic, or a table"
            )
        for source in definition.sources:
            if source.table is None and source.options.get("value.format") != "binary":
                definition.file.add_problem(
                    problems,
                    (*source.place, "format"),
                    "a replay sends bytes as they were; leave it out, and look into them in filter "
                    "with from_json(CAST(value AS STRING), 'amount DOUBLE').amount and the like",
                )
        sink = definition.sink
        if sink is not None and sink.topic is None:
            definition.file.add_problem(problems, ("sink",), 'a replay goes to topic = "…"')
        _settings(definition, problems)

    def analyse(
        self, spark: "SparkSession", definition: PipelineDefinition, problems: Problems
    ) -> None:
        from pyspark.errors import PySparkException

        settings = _settings(definition, problems)
        place: FieldPath = definition.sources[0].place
        try:
            everything = ReplayRecords(
                spark, definition, dataclasses.replace(settings, filter="")
            ).everything()
            place = (_SECTION, "filter")
            if settings.filter:
                everything.where(settings.filter)
        except (GoQueueError, PySparkException) as error:
            definition.file.add_problem(problems, place, plain_reason(error))

    def start(
        self, spark: "SparkSession", definition: PipelineDefinition, context: RunContext
    ) -> Run:
        problems = Problems()
        records = ReplayRecords(spark, definition, _settings(definition, problems))
        problems.raise_any()
        work = dry_run if context.is_dry_run else replay
        return Run(work=lambda: work(records, context))


def _settings(definition: PipelineDefinition, problems: Problems) -> ReplaySettings:
    fields = definition.section(_SECTION, problems)
    settings = ReplaySettings(
        start=fields.text("from", "earliest"),
        end=fields.text("to", "latest"),
        filter=fields.text("filter"),
        rate=fields.number("rate", minimum=1, maximum=_MAX_RATE),
        keeps_timestamps=fields.choice("timestamps", ("keep", "now"), "keep") == "keep",
        keeps_partitions=fields.choice("partitions", ("by-key", "keep"), "by-key") == "keep",
    )
    fields.finish()
    for name, text in (("from", settings.start), ("to", settings.end)):
        try:
            position = settings.position(name, text)
        except InvalidOption as error:
            fields.problem(name, error.message.partition(": ")[2] or error.message)
            continue
        wrong = PositionKind.LATEST if name == "from" else PositionKind.EARLIEST
        if position.kind is wrong:
            fields.problem(name, f"{text} leaves nothing to send")
    return settings
