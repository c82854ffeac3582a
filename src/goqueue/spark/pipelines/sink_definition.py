"""`[sink]`: where a pipeline's rows go, a topic or a table."""

from dataclasses import dataclass
from typing import Final

from goqueue.spark.option_names import InvalidOption
from goqueue.spark.pipelines.field_lines import FieldPath
from goqueue.spark.pipelines.fields import Fields
from goqueue.spark.sink.options import parse_options

PLACE: Final[FieldPath] = ("sink",)
DELTA: Final = "delta"
PARQUET: Final = "parquet"
# Whole rows as JSON, or the columns of a record (key, value, headers, …) as they are.
JSON: Final = "json"
COLUMNS: Final = "columns"
# The broker's own limit is lower or as high; a typing error is found before.
_MAX_PARTITIONS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkDefinition:
    topic: str | None
    table: str | None
    # Of a table: DELTA or PARQUET. Of a topic: JSON, COLUMNS, or None for what the query says.
    format: str | None
    # Spark's output mode.
    mode: str
    # The column that becomes the record's key.
    key: str | None
    # Columns that a table is divided by.
    partition_by: tuple[str, ...]
    # With how many partitions the topic is made, if it is not there.
    partitions: int | None
    # Of the writer, as `df.write.format("goqueue")` takes them.
    options: dict[str, str]


def read_sink(fields: Fields, bootstrap_servers: str) -> SinkDefinition | None:
    table = fields.table("sink")
    if table is None:
        return None
    topic, path = table.text("topic") or None, table.text("table") or None
    if (topic is None) == (path is None):
        table.problem("", 'give either topic = "…" or table = "path"')
    sink = _to_topic(table, topic, bootstrap_servers) if path is None else _to_table(table, path)
    table.finish()
    return sink


def _to_topic(table: Fields, topic: str | None, bootstrap_servers: str) -> SinkDefinition:
    options = {"bootstrap.servers": bootstrap_servers, **table.settings("options")}
    if topic is not None:
        options["topic"] = topic
    try:
        parse_options(options, is_stream=True)
    except InvalidOption as error:
        table.problem("options" if "options" in table else "", error.message)
    return SinkDefinition(
        topic=topic,
        table=None,
        format=table.choice("format", (JSON, COLUMNS), "") or None,
        mode=table.choice("mode", ("append", "update"), "append"),
        key=table.text("key") or None,
        partition_by=(),
        partitions=table.number("partitions", minimum=1, maximum=_MAX_PARTITIONS),
        options=options,
    )


def _to_table(table: Fields, path: str) -> SinkDefinition:
    table_format = table.choice("format", (DELTA, PARQUET), DELTA)
    modes = ("append", "complete") if table_format == DELTA else ("append",)
    options = table.settings("options")
    if options and table_format == DELTA:
        table.problem("options", "a Delta table has none; leave it out")
    return SinkDefinition(
        topic=None,
        table=path,
        format=table_format,
        mode=table.choice("mode", modes, "append"),
        key=None,
        partition_by=tuple(table.texts("partitionBy")),
        partitions=None,
        options=options,
    )
