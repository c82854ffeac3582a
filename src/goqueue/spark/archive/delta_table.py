"""Delta tables written exactly once: tasks write data files, the driver commits them all at once.

A commit carries the number of its batch as an application transaction of the table, so a batch
that Spark runs again is recognised, and of two runs that write the same batch one is refused. Only
`deltalake` touches the table's log; no jar is needed.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError
from goqueue.spark.archive.delta_files import TableFolder, WrittenFiles
from goqueue.spark.archive.delta_schema import TableMismatch, merge_schemas, stored_schema
from goqueue.spark.archive.object_store import spark_uri, storage_options, table_uri

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    # What a task does with its rows before they are written.
    RowStep = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

log = logging.getLogger(__name__)

# Others may change the table's columns or properties meanwhile; they do not do it all day.
_COMMIT_ATTEMPTS: Final = 5
# What Spark can read by the files alone.
_FEATURES_READ: Final = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
_QUERY_ID: Final = "sql.streaming.queryId"


class TableConflict(GoQueueError):
    """Somebody else writes the same batches into the table."""

    code = "table_conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTarget:
    """`partition_by` counts when the table is made; one that exists must have the same."""

    uri: str
    partition_by: tuple[str, ...] = ()
    storage_options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMark:
    """Makes a batch known to the table: `app_id` has written all up to `version`.

    `also` are further application transactions of the same commit, and `expects` what the table
    must have of them before. `facts` are shown in the table's history.
    """

    app_id: str
    version: int
    also: Mapping[str, int] = field(default_factory=dict)
    expects: Mapping[str, int | None] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def table_target(uri: str, partition_by: Sequence[str] = ()) -> TableTarget:
    """A table at a path or an address, with what the session or the environment knows of it."""
    return TableTarget(
        uri=table_uri(uri),
        partition_by=tuple(partition_by),
        storage_options=storage_options(uri),
    )


def open_table(target: TableTarget) -> "DeltaTable | None":
    """The newest state of a table, or None where there is none."""
    from deltalake import DeltaTable

    options = dict(target.storage_options) or None
    if not DeltaTable.is_deltatable(target.uri, options):
        return None
    return DeltaTable(target.uri, storage_options=options)


def table_schema(table: "DeltaTable") -> "pa.Schema":
    import pyarrow as pa

    # Two libraries' schemas: Arrow's C interface carries one into the other.
    exported: Any = table.schema().to_arrow()
    return stored_schema(pa.schema(exported))


def read_delta(
    spark: "SparkSession",
    path: str,
    *,
    table: "DeltaTable | None" = None,
    only_files: str | None = None,
) -> "DataFrame":
    """The rows of a table as it is now, or of the state that is given; Spark reads the files.

    `only_files` is a condition in SQL: files that cannot have such a row are left out.
    """
    from pyspark.sql.types import StructType

    table = open_table(table_target(path)) if table is None else table
    if table is None:
        raise TableMismatch(f"there is no Delta table at {path}; see that the path is right")
    features = set(table.protocol().reader_features or ()) - _FEATURES_READ
    if features:
        raise TableMismatch(
            f"table {path} uses {', '.join(sorted(features))}, which is not read here; read it "
            "with Delta's own library, or rewrite it without"
        )
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    files = [spark_uri(each) for each in table.file_uris(file_pruning_predicate=only_files)]
    if not files:
        return spark.createDataFrame([], schema)
    base = spark_uri(table.table_uri)
    return spark.read.schema(schema).option("basePath", base).parquet(*files)


def write_batch(
    frame: "DataFrame",
    target: TableTarget,
    mark: BatchMark | None,
    *,
    overwrite: bool = False,
    step: "RowStep | None" = None,
    schema: "pa.Schema | None" = None,
) -> bool:
    """Write a frame once for its mark; False where that was done before.

    `overwrite` replaces what the table had. `step` is done to the rows by the tasks, and must be a
    function that can be pickled; `schema` then says what it makes of them.
    """
    from goqueue.spark.archive.delta_sink import TableWrite, save

    table = open_table(target)
    if table is not None and mark is not None and is_marked(table, mark):
        return False
    schema = _frame_schema(frame) if schema is None else schema
    if table is None:
        table = create_table(target, schema)
    _check_partitioning(table, target)
    merge_schemas(table_schema(table), schema)
    save(frame, TableWrite(target=target, mark=mark, overwrite=overwrite, step=step))
    return True


def append_delta(frame: "DataFrame", path: str, *, partition_by: Sequence[str] = ()) -> None:
    """Write a frame that no mark makes known: a second call writes it again."""
    write_batch(frame, table_target(path, partition_by), None)


def delta_writer(
    frame: "DataFrame", path: str, *, partition_by: Sequence[str] = (), is_complete: bool = False
) -> "DataStreamWriter":
    """A stream into a table, each batch once; for output mode complete, which replaces the rows."""
    target = table_target(path, partition_by)

    def write(batch: "DataFrame", batch_id: int) -> None:
        mark = BatchMark(app_id=stream_app_id(batch), version=batch_id)
        write_batch(batch, target, mark, overwrite=is_complete)

    return frame.writeStream.foreachBatch(write)


def stream_app_id(batch: "DataFrame") -> str:
    """The query's id, which its checkpoint keeps over restarts."""
    query_id = batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    if not query_id:
        raise TableMismatch("only a batch of a streaming query can be written by its query's id")
    return f"spark-query.{query_id}"


def commit_files(
    target: TableTarget, mark: BatchMark | None, parts: Sequence[WrittenFiles], *, overwrite: bool
) -> None:
    """Make the files of all tasks part of the table, in one commit with the mark."""
    from deltalake.exceptions import CommitFailedError

    table = open_table(target)
    if table is None:
        raise TableConflict(f"table {target.uri} was deleted while it was written; start again")
    for attempt in range(1, _COMMIT_ATTEMPTS + 1):
        if mark is not None:
            if is_marked(table, mark):
                return
            _check_expected(table, target, mark)
        _grow(table, parts)
        try:
            _commit(table, mark, parts, overwrite=overwrite)
        except CommitFailedError as error:
            if attempt == _COMMIT_ATTEMPTS or "Concurrent transaction" in str(error):
                raise _conflict(target, str(error)) from None
            log.info("table %s changed meanwhile; commit again: %s", target.uri, error)
            table.update_incremental()
            continue
        break
    table.update_incremental()
    folder = TableFolder(target.uri, target.storage_options)
    folder.make_durable(f"_delta_log/{table.version():020d}.json")


def _commit(
    table: "DeltaTable", mark: BatchMark | None, parts: Sequence[WrittenFiles], *, overwrite: bool
) -> None:
    from deltalake import CommitProperties, Transaction
    from deltalake.transaction import AddAction, RemoveAction

    actions: list[AddAction | RemoveAction] = [
        AddAction(
            path=file.path,
            size=file.size_bytes,
            partition_values=file.partition_values,
            modification_time=file.written_ms,
            data_change=True,
            stats=file.stats,
        )
        for part in parts
        for file in part.files
    ]
    versions = {} if mark is None else {mark.app_id: mark.version, **mark.also}
    table.create_write_transaction(
        actions,
        "overwrite" if overwrite else "append",
        table.schema(),
        table.metadata().partition_columns,
        commit_properties=CommitProperties(
            custom_metadata={} if mark is None else dict(mark.facts),
            app_transactions=[Transaction(app_id, to) for app_id, to in versions.items()],
        ),
    )


def is_marked(table: "DeltaTable", mark: BatchMark) -> bool:
    written = table.transaction_version(mark.app_id)
    return written is not None and written >= mark.version


def _check_expected(table: "DeltaTable", target: TableTarget, mark: BatchMark) -> None:
    for app_id, expected in mark.expects.items():
        found = table.transaction_version(app_id)
        if found != expected:
            raise _conflict(target, f"{app_id} is at {found} now, and was at {expected}")


def _conflict(target: TableTarget, reason: str) -> TableConflict:
    return TableConflict(
        f"table {target.uri}: the batch was not written, for somebody else wrote meanwhile "
        f"({reason}); see that only one run writes this table, and start again"
    )


def create_table(
    target: TableTarget, schema: "pa.Schema", properties: Mapping[str, str] | None = None
) -> "DeltaTable":
    """Make the table, or take the one that is there already."""
    from deltalake import DeltaTable

    missing = [name for name in target.partition_by if name not in schema.names]
    if missing:
        raise TableMismatch(
            f"table {target.uri}: cannot be partitioned by {', '.join(missing)}; the rows have "
            f"{', '.join(schema.names)}"
        )
    return DeltaTable.create(
        target.uri,
        schema,
        mode="ignore",
        partition_by=list(target.partition_by),
        configuration=dict(properties or {}),
        storage_options=dict(target.storage_options) or None,
        raise_if_key_not_exists=False,
    )


def _check_partitioning(table: "DeltaTable", target: TableTarget) -> None:
    known = tuple(table.metadata().partition_columns)
    if known != target.partition_by:
        raise TableMismatch(
            f"table {target.uri} is partitioned by {', '.join(known) or 'nothing'}, not by "
            f"{', '.join(target.partition_by) or 'nothing'}; name the same columns, or another "
            "table"
        )


def _grow(table: "DeltaTable", parts: Sequence[WrittenFiles]) -> None:
    """Add the columns that the table does not have yet."""
    from deltalake import write_deltalake

    known = merged = table_schema(table)
    for part in parts:
        if part.schema is not None:
            merged = merge_schemas(merged, part.schema)
    if merged != known:
        write_deltalake(table, merged.empty_table(), mode="append", schema_mode="merge")
        table.update_incremental()


def _frame_schema(frame: "DataFrame") -> "pa.Schema":
    from pyspark.sql.pandas.types import to_arrow_schema

    return stored_schema(to_arrow_schema(frame.schema, timezone="UTC"))
