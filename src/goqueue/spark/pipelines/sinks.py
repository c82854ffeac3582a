"""Rows into the sink: a topic by transactions, a table by its own log."""

from typing import TYPE_CHECKING, Any, Final

from goqueue.spark.archive.object_store import spark_uri
from goqueue.spark.option_names import InvalidOption
from goqueue.spark.pipelines.definition import PipelineDefinition
from goqueue.spark.pipelines.kinds.kind import Run, RunContext
from goqueue.spark.pipelines.problems import Problems
from goqueue.spark.pipelines.sink_definition import COLUMNS, DELTA, PLACE, SinkDefinition
from goqueue.spark.pipelines.spark_errors import plain_reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_UPDATE: Final = "update"
_COMPLETE: Final = "complete"


def check_rows(frame: "DataFrame", definition: PipelineDefinition, problems: Problems) -> None:
    """Note what keeps rows of these columns from the sink, before anything runs."""
    from pyspark.errors import PySparkException

    from goqueue.spark.sink.schema import check_schema

    sink = _sink(definition)
    for field, names in (
        ("key", (sink.key,) if sink.key else ()),
        ("partitionBy", sink.partition_by),
    ):
        for name in names:
            if name.partition(".")[0].lower() not in (each.lower() for each in frame.columns):
                there = ", ".join(frame.columns)
                what = f"there is no column {name!r} in the result; there are {there}"
                definition.file.add_problem(problems, (*PLACE, field), what)
                return
    try:
        if sink.topic is not None:
            check_schema(as_records(frame, sink).schema, has_topic=True)
        _check_streaming(frame, sink.mode)
    except (InvalidOption, PySparkException) as error:
        definition.file.add_problem(problems, PLACE, plain_reason(error))


def as_records(frame: "DataFrame", sink: SinkDefinition) -> "DataFrame":
    """Columns of a record: as they are where there is a value, else the whole row as JSON."""
    from pyspark.sql import functions

    names = {name.lower() for name in frame.columns}
    key = None if sink.key is None else functions.expr(sink.key).cast("string").alias("key")
    if sink.format == COLUMNS or (sink.format is None and "value" in names):
        return frame if key is None else frame.withColumn("key", key)
    value = functions.to_json(functions.struct("*")).alias("value")
    return frame.select(*([] if key is None else [key]), value)


def start_rows(frame: "DataFrame", definition: PipelineDefinition, context: RunContext) -> Run:
    """A query that writes a stream, or the work of writing what is no stream once."""
    if frame.isStreaming:
        return Run(queries=[start_stream(frame, definition, context)])
    return Run(work=lambda: write_once(frame, definition, context))


def start_stream(
    frame: "DataFrame", definition: PipelineDefinition, context: RunContext
) -> "StreamingQuery":
    sink = _sink(definition)
    writer = _to_topic(frame, sink) if sink.topic is not None else _to_table(frame, definition)
    writer = writer.queryName(definition.name).option("checkpointLocation", context.checkpoint)
    return writer.outputMode(sink.mode).trigger(**trigger_arguments(context)).start()


def trigger_arguments(context: RunContext) -> dict[str, Any]:
    """As `DataStreamWriter.trigger` takes them."""
    if context.is_one_pass:
        return {"availableNow": True}
    return {"processingTime": context.trigger}


def write_once(frame: "DataFrame", definition: PipelineDefinition, context: RunContext) -> None:
    sink = _sink(definition)
    if sink.topic is not None:
        records = as_records(frame, sink)
        records.write.format("goqueue").options(**sink.options).mode("append").save()
    elif sink.format == DELTA:
        from goqueue.spark.archive.delta_table import append_delta

        append_delta(frame, _table_path(definition), partition_by=sink.partition_by)
    else:
        writer = frame.write.options(**sink.options).partitionBy(*sink.partition_by)
        writer.mode("append").parquet(spark_uri(_table_path(definition)))
    context.say(f"{definition.name}: written")


def _to_topic(frame: "DataFrame", sink: SinkDefinition) -> "DataStreamWriter":
    records = as_records(frame, sink)
    if sink.mode != _UPDATE:
        return records.writeStream.format("goqueue").options(**sink.options)

    # Spark gives sources written in Python no mode but append, so each batch is a write of its
    # own, under a name and number that a second try has as well.
    def write_batch(batch: "DataFrame", batch_id: int) -> None:
        query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        known = {"transaction.id": query_id, "transaction.sequence": str(batch_id)}
        batch.write.format("goqueue").options(**sink.options).options(**known).mode("append").save()

    return records.writeStream.foreachBatch(write_batch)


def _to_table(frame: "DataFrame", definition: PipelineDefinition) -> "DataStreamWriter":
    sink, path = _sink(definition), _table_path(definition)
    if sink.format == DELTA:
        from goqueue.spark.archive.delta_table import delta_writer

        return delta_writer(
            frame, path, partition_by=sink.partition_by, is_complete=sink.mode == _COMPLETE
        )
    writer = (
        frame.writeStream.format("parquet").options(**sink.options).option("path", spark_uri(path))
    )
    return writer.partitionBy(*sink.partition_by) if sink.partition_by else writer


def _sink(definition: PipelineDefinition) -> SinkDefinition:
    assert definition.sink is not None, "kinds with rows have a sink"
    return definition.sink


def _table_path(definition: PipelineDefinition) -> str:
    return definition.path_text(_sink(definition).table or "")


def _check_streaming(frame: "DataFrame", mode: str) -> None:
    """What Spark else refuses only when the query starts, such as sums that have no end."""
    if not frame.isStreaming or not hasattr(frame, "_jdf"):  # Spark Connect checks at the start
        return
    jvm = frame.sparkSession.sparkContext._jvm
    assert jvm is not None, "a classic session has one"
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(
        frame._jdf.queryExecution().analyzed(),
        {_UPDATE: modes.Update, _COMPLETE: modes.Complete}.get(mode, modes.Append)(),
    )
