"""Sources as views that SQL and users' functions read."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.spark.option_names import InvalidOption
from goqueue.spark.pipelines.definition import PipelineDefinition
from goqueue.spark.pipelines.field_lines import FieldPath
from goqueue.spark.pipelines.problems import Problems
from goqueue.spark.pipelines.source_definition import SourceDefinition, Watermark
from goqueue.spark.pipelines.spark_errors import plain_reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TIMES: Final = ("timestamp", "timestamp_ntz")
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def make_views(
    spark: "SparkSession", definition: PipelineDefinition, problems: Problems
) -> "dict[str, DataFrame]":
    """A temporary view per source; what Spark refuses is noted with the field that it is about."""
    found = {}
    for source in definition.sources:
        frame = _frame(spark, definition, source, problems)
        if frame is not None:
            frame.createOrReplaceTempView(source.name)
            found[source.name] = frame
    return found


def _frame(
    spark: "SparkSession",
    definition: PipelineDefinition,
    source: SourceDefinition,
    problems: Problems,
) -> "DataFrame | None":
    from pyspark.errors import PySparkException

    place = source.place
    try:
        frame = _load(spark, definition, source)
        if source.schema:
            place = (*source.place, "schema")
            frame = _with_json(frame, source)
        if source.watermark is not None:
            place = (*source.place, "watermark")
            return _with_watermark(frame, source.watermark, definition, place, problems)
    except (InvalidOption, PySparkException) as error:
        definition.file.add_problem(problems, place, plain_reason(error))
        return None
    return frame


def _load(
    spark: "SparkSession", definition: PipelineDefinition, source: SourceDefinition
) -> "DataFrame":
    if source.table is not None:
        return read_table(spark, definition.path_text(source.table))
    if source.is_stream:
        return spark.readStream.format("goqueue").options(**source.options).load()
    return spark.read.format("goqueue").options(**source.options).load()


def read_table(spark: "SparkSession", path: str) -> "DataFrame":
    """A Delta table, or a folder of Parquet files."""
    if "://" in path or (Path(path) / "_delta_log").is_dir():
        from goqueue.spark.archive.delta_table import read_delta

        return read_delta(spark, path)
    return spark.read.parquet(path)


def _with_json(frame: "DataFrame", source: SourceDefinition) -> "DataFrame":
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    # Its errors say more about a wrong type than those of from_json.
    schema = StructType.fromDDL(" ".join(source.schema.split()))
    if not isinstance(schema, StructType):
        raise InvalidOption('write columns and their types, such as "id INT, name STRING"')
    mode = "PERMISSIVE" if source.is_permissive else "FAILFAST"
    return frame.withColumn("value", functions.from_json("value", schema, {"mode": mode}))


def _with_watermark(
    frame: "DataFrame",
    watermark: Watermark,
    definition: PipelineDefinition,
    place: FieldPath,
    problems: Problems,
) -> "DataFrame | None":
    from pyspark.sql import functions

    name = watermark.column
    if _NAME.fullmatch(name) is None:
        # Spark takes a column only: a field of the value becomes one, under its own name.
        name = watermark.column.rpartition(".")[2]
        frame = frame.withColumn(name, functions.expr(watermark.column))
    kind = frame.select(name).schema[0].dataType.simpleString()
    if kind not in _TIMES:
        definition.file.add_problem(
            problems,
            (*place, "column"),
            f"{watermark.column} is {kind}; a watermark needs a timestamp (in schema write "
            f"{name} TIMESTAMP)",
        )
        return None
    return frame.withWatermark(name, watermark.delay)
