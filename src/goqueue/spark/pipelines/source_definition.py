"""`[[source]]`: what a pipeline reads, each as a view with a name."""

import re
from dataclasses import dataclass
from typing import Final

from goqueue.spark.option_names import InvalidOption
from goqueue.spark.pipelines.field_lines import FieldPath
from goqueue.spark.pipelines.fields import Fields, spark_duration
from goqueue.spark.source.options import FORMATS, parse_source_options

_VIEW: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")
_CHOOSERS: Final = ("topic", "topics", "topicPattern")


@dataclass(frozen=True, slots=True)
class Watermark:
    # A column of the view, or a field of the value such as `value.orderedAt`.
    column: str
    # As Spark takes it.
    delay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDefinition:
    place: FieldPath
    # The view's name in SQL.
    name: str
    # Of the source, as `spark.read.format("goqueue")` takes them; empty for a table.
    options: dict[str, str]
    topics: tuple[str, ...]
    # A Delta table or Parquet folder instead of topics.
    table: str | None
    # Columns of JSON values in SQL's DDL; empty where the registry knows them.
    schema: str
    watermark: Watermark | None
    is_stream: bool
    # Whether values that are no JSON of the schema become null.
    is_permissive: bool


def read_sources(fields: Fields, bootstrap_servers: str) -> tuple[SourceDefinition, ...]:
    tables = fields.tables("source")
    found: list[SourceDefinition] = []
    for table in tables:
        source = _read_source(table, bootstrap_servers)
        if source.name in {each.name for each in found}:
            table.problem(
                "name", f"there are two sources {source.name!r}; give each a name of its own"
            )
        found.append(source)
    return tuple(found)


def _read_source(table: Fields, bootstrap_servers: str) -> SourceDefinition:
    given = [name for name in (*_CHOOSERS, "table") if name in table]
    if len(given) != 1:
        table.problem(
            "", f"name what to read by one of topic, topics, topicPattern, table; given: "
            f"{', '.join(given) or 'none'}",
        )  # fmt: skip
    topics = tuple(table.texts("topic") + table.texts("topics"))
    if "topic" in table and len(topics) > 1:
        table.problem("topic", "names one topic; for several write topics = […]")
    pattern = table.text("topicPattern")
    path = table.text("table") or None
    name = table.text("name") or _NOT_IN_NAMES.sub("_", topics[0] if topics else "")
    if _VIEW.fullmatch(name) is None:
        table.problem(
            "name", "missing" if not name else f"{name!r} is no name for a view in SQL; write "
            'letters, digits and _, such as name = "orders"',
        )  # fmt: skip
    value_format = table.choice("format", FORMATS, "binary")
    schema = table.text("schema")
    # Of a format that does not exist, that is enough to say.
    if schema and value_format != "json" and table.text("format") in ("", *FORMATS):
        table.problem("schema", 'only values of format = "json" have one; others know their own')
    is_stream = table.flag("stream", default=path is None)
    if path is not None and is_stream:
        table.problem("stream", "a table is read once, at the start; leave it out")
    is_permissive = table.choice("mode", ("failfast", "permissive"), "failfast") == "permissive"
    options = {
        "bootstrap.servers": bootstrap_servers,
        # With a schema of its own the value is text, which is parsed in the query.
        "value.format": "string" if schema else value_format,
        "mode": "permissive" if is_permissive else "failfast",
        "includeHeaders": "true",
    }
    if topics:
        options["topics"] = ",".join(topics)
    if pattern:
        options["topicPattern"] = pattern
    if is_stream:
        # A pipeline that is started for the first time is to miss nothing.
        options["startingOffsets"] = "earliest"
    options = _with_given(options, table)
    source = SourceDefinition(
        place=table.path,
        name=name,
        options=options,
        topics=topics,
        table=path,
        schema=schema,
        watermark=_read_watermark(table),
        is_stream=is_stream and path is None,
        is_permissive=is_permissive,
    )
    if path is None and (topics or pattern):
        _check_options(source, table)
    table.finish()
    return source


def _with_given(options: dict[str, str], table: Fields) -> dict[str, str]:
    """What the user gave replaces ours, however it is spelled."""
    given = table.settings("options")
    spelled = {name.lower() for name in given}
    if any(name.startswith("starting") for name in spelled):
        spelled.add("startingoffsets")
    kept = {name: value for name, value in options.items() if name.lower() not in spelled}
    return kept | given


def _check_options(source: SourceDefinition, table: Fields) -> None:
    try:
        parse_source_options(source.options, streaming=source.is_stream)
    except InvalidOption as error:
        table.problem("options" if "options" in table else "", error.message)


def _read_watermark(table: Fields) -> Watermark | None:
    inner = table.table("watermark")
    if inner is None:
        return None
    column = inner.text("column", required='name a time, such as column = "timestamp"')
    delay_ms = inner.duration_ms("delay", required='how late records may be: delay = "10m"')
    inner.finish()
    return Watermark(column, spark_duration(delay_ms or 0))
