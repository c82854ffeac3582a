"""Topics through a query into a topic or a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.spark.pipelines.definition import PipelineDefinition
from goqueue.spark.pipelines.kinds.kind import Kind, Run, RunContext
from goqueue.spark.pipelines.problems import Problems
from goqueue.spark.pipelines.sinks import check_rows, start_rows
from goqueue.spark.pipelines.spark_errors import plain_reason, sql_line
from goqueue.spark.pipelines.views import make_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SECTION: Final = "sql"

_DEFINITION: Final = """\
# Revenue per customer and minute. Try it: goqueue pipeline check .   then   goqueue pipeline run .
name = "{name}"
kind = "sql"
# bootstrap.servers = "127.0.0.1:9092"     # else $GOQUEUE_BOOTSTRAP, else this

[[source]]
name = "orders"                            # the view's name in the query
topic = "orders"                           # or: topics = ["a", "b"], topicPattern = "orders-.*"
format = "json"                            # binary, string, json, or avro with a schema registry
schema = "id BIGINT, customer STRING, amount DOUBLE"   # leave it out to ask the registry
mode = "permissive"                        # null for values that are no such JSON
# Windows are closed, and their rows sent, when records are this much younger than their end.
watermark = {{ column = "timestamp", delay = "30s" }}

[sql]
file = "query.sql"                         # or: query = "SELECT …"

[sink]
topic = "{name}"                           # or: table = "path", a Delta table
partitions = 1                             # makes the topic if it is not there
key = "customer"                           # a column of the result
# mode = "update"                          # every change of a row, not only the closed windows

[run]
trigger = "5s"                             # or available-now: all there is, then end
# master = "spark://host:7077"             # a cluster; checkpoint must then be on shared storage
# conf = {{ spark.sql.shuffle.partitions = 4 }}
"""
_QUERY: Final = """\
-- Columns of a source: key, value, topic, partition, offset, timestamp, headers, priority.
-- The result becomes JSON, or give it a column named value.
SELECT
  value.customer AS customer,
  window.start AS minute,
  sum(value.amount) AS revenue,
  count(*) AS orders
FROM orders
WHERE value.amount IS NOT NULL
GROUP BY value.customer, window(timestamp, '1 minute')
"""


class SqlKind(Kind):
    def example(self, name: str) -> dict[str, str]:
        return {"pipeline.toml": _DEFINITION.format(name=name), "query.sql": _QUERY}

    def check(self, definition: PipelineDefinition, problems: Problems) -> None:
        _query(definition, problems)
        if not definition.sources:
            definition.file.add_problem(
                problems, ("source",), 'missing; write [[source]] with topic = "…"'
            )

    def analyse(
        self, spark: "SparkSession", definition: PipelineDefinition, problems: Problems
    ) -> None:
        frame = _result(spark, definition, problems)
        if frame is not None:
            check_rows(frame, definition, problems)

    def start(
        self, spark: "SparkSession", definition: PipelineDefinition, context: RunContext
    ) -> Run:
        problems = Problems()
        frame = _result(spark, definition, problems)
        problems.raise_any()
        assert frame is not None, "without a problem there is a result"
        return start_rows(frame, definition, context)


def _query(definition: PipelineDefinition, problems: Problems) -> tuple[str, Path, int]:
    """The text, and where its first line stands."""
    fields = definition.section(_SECTION, problems)
    given = [name for name in ("query", "file") if name in fields]
    query, file_name = fields.text("query"), fields.text("file")
    fields.finish()
    if len(given) != 1:
        fields.problem("", 'give either query = "SELECT …" or file = "query.sql"')
    elif file_name:
        path = definition.folder / file_name
        try:
            query = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            fields.problem("file", f"{path} cannot be read: {getattr(error, 'strerror', error)}")
        else:
            if not query.strip():
                problems.add(_shown(path), 1, "", "there is no query in it")
            return query.rstrip().removesuffix(";"), _shown(path), 1
    file = definition.file
    return query.rstrip().removesuffix(";"), file.path, file.lines.text_line(fields.place("query"))


def _result(
    spark: "SparkSession", definition: PipelineDefinition, problems: Problems
) -> "DataFrame | None":
    from pyspark.errors import PySparkException

    found = len(problems)
    query, path, first_line = _query(definition, problems)
    make_views(spark, definition, problems)
    if len(problems) > found:
        return None
    try:
        return spark.sql(query)
    except PySparkException as error:
        line = first_line + (sql_line(error) or 1) - 1
        problems.add(path, line, "", plain_reason(error))
        return None


def _shown(path: Path) -> Path:
    """As the user would type it."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path
