"""Dead letters: counted by why, where and when they died, and sent back, each once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError
from goqueue.model.names import check_topic_name
from goqueue.spark.dead_letters.reading import EXCEPTION_HEADERS, GROUPS, DeadLetters, report
from goqueue.spark.dead_letters.redrive import redrive, waiting
from goqueue.spark.pipelines.definition import PipelineDefinition
from goqueue.spark.pipelines.field_lines import FieldPath
from goqueue.spark.pipelines.fields import spark_duration
from goqueue.spark.pipelines.kinds.kind import Kind, Run, RunContext
from goqueue.spark.pipelines.problems import Problems
from goqueue.spark.pipelines.spark_errors import plain_reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SECTION: Final = "dead-letters"
_REPORT: Final = "report"
_REDRIVE: Final = "redrive"
# A table that a person reads; narrower groups are chosen with `where`.
_MAX_LINES: Final = 200
_BUCKET_MS: Final = 3_600_000

_DEFINITION: Final = """\
# Dead letters of a topic: what died, and why. Try it: goqueue pipeline check .   then   run .
name = "{name}"
kind = "dead-letters"
# bootstrap.servers = "127.0.0.1:9092"     # else $GOQUEUE_BOOTSTRAP, else this

[dead-letters]
topic = "orders"                           # reads orders.dlq
action = "report"                          # or redrive: send them back, each once
# Which of them, in SQL. Columns: reason (rejected, max_deliveries, expired), exception, group,
# sourceTopic, sourcePartition, sourceOffset, deliveries, diedAt, redrivenBy, key, value, headers
# where = "reason = 'rejected' AND diedAt >= current_timestamp() - INTERVAL 1 DAY"
groupBy = ["reason", "sourceTopic", "bucket"]   # also: group, exception
bucket = "1h"
# exceptionHeaders = ["exception", "error"]     # the first that a message has is its exception
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    letters: DeadLetters
    is_redrive: bool
    where: str | None
    group_by: tuple[str, ...]
    bucket: str
    exception_headers: tuple[str, ...]


class DeadLettersKind(Kind):
    takes_sources = False
    takes_sink = False
    has_dry_run = True

    def example(self, name: str) -> dict[str, str]:
        return {"pipeline.toml": _DEFINITION.format(name=name)}

    def check(self, definition: PipelineDefinition, problems: Problems) -> None:
        _read(definition, problems)

    def topics(self, definition: PipelineDefinition) -> dict[str, FieldPath]:
        letters = _read(definition, Problems()).letters
        return {letters.letters_topic: (_SECTION, "topic")} if letters.topic else {}

    def analyse(
        self, spark: "SparkSession", definition: PipelineDefinition, problems: Problems
    ) -> None:
        from pyspark.errors import PySparkException

        settings = _read(definition, Problems())
        frame = settings.letters.frame(spark, exception_headers=settings.exception_headers)
        place = "where"
        try:
            _chosen(frame, settings)
            place = "bucket"
            report(frame, by=settings.group_by, bucket=settings.bucket)
        except PySparkException as error:
            definition.file.add_problem(problems, (_SECTION, place), plain_reason(error))

    def start(
        self, spark: "SparkSession", definition: PipelineDefinition, context: RunContext
    ) -> Run:
        settings = _read(definition, Problems())
        if settings.is_redrive:
            return Run(work=lambda: _send_back(spark, settings, context))
        return Run(work=lambda: _show_report(spark, settings, context))


def _show_report(spark: "SparkSession", settings: _Settings, context: RunContext) -> None:
    frame = settings.letters.frame(spark, exception_headers=settings.exception_headers)
    counted = report(_chosen(frame, settings), by=settings.group_by, bucket=settings.bucket)
    _say_table(counted, settings, context)


def _send_back(spark: "SparkSession", settings: _Settings, context: RunContext) -> None:
    letters = settings.letters
    if context.is_dry_run:
        frame = letters.frame(spark, exception_headers=settings.exception_headers)
        would_go = waiting(frame, letters, settings.where)
        _say_table(
            report(would_go, by=settings.group_by, bucket=settings.bucket), settings, context
        )
        context.say("dry run: nothing was sent")
        return
    count = redrive(spark, letters, settings.where)
    context.say(f"{count} dead letters of {letters.topic} were sent back")


def _chosen(frame: "DataFrame", settings: _Settings) -> "DataFrame":
    return frame if settings.where is None else frame.where(settings.where)


def _say_table(counted: "DataFrame", settings: _Settings, context: RunContext) -> None:
    rows = counted.limit(_MAX_LINES).collect()
    if not rows:
        context.say(f"no dead letters of {settings.letters.topic} that were chosen")
        return
    for line in _lines(counted.columns, rows):
        context.say(line)


def _lines(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    table = [list(names), *([_cell(each) for each in row] for row in rows)]
    widths = [max(len(row[index]) for row in table) for index in range(len(names))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def _cell(value: object) -> str:
    # Times without the fractions that nobody compares.
    return "-" if value is None else str(value).partition(".")[0]


def _read(definition: PipelineDefinition, problems: Problems) -> _Settings:
    fields = definition.section(_SECTION, problems)
    topic = fields.text("topic", required='name whose dead letters: topic = "orders"')
    if topic:
        try:
            check_topic_name(topic)
        except GoQueueError as error:
            fields.problem("topic", error.message)
    group_by = tuple(fields.texts("groupBy")) or ("reason", "sourceTopic", "bucket")
    for unknown in sorted(set(group_by) - set(GROUPS)):
        fields.problem("groupBy", f"{unknown!r} is not one of {', '.join(GROUPS)}")
    settings = _Settings(
        letters=DeadLetters(bootstrap_servers=definition.bootstrap_servers, topic=topic),
        is_redrive=fields.choice("action", (_REPORT, _REDRIVE), _REPORT) == _REDRIVE,
        where=fields.text("where") or None,
        group_by=group_by,
        bucket=spark_duration(fields.duration_ms("bucket", minimum=1) or _BUCKET_MS),
        exception_headers=tuple(fields.texts("exceptionHeaders")) or EXCEPTION_HEADERS,
    )
    fields.finish()
    return settings
