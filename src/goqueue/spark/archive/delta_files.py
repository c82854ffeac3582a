"""Data files of a Delta table, written by tasks where the rows are.

A file gets a name that nobody else has, and the driver is told of it; only the driver's commit
makes it a part of the table. What failed tasks left behind is unknown to the table until a vacuum
takes it away.
"""

import datetime
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from goqueue.spark.archive.delta_schema import TableMismatch, stored_schema
from goqueue.spark.archive.object_store import file_system

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# Delta's own files of a null, as Hive named them.
_NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
# Readers skip and share out work by row groups: large enough to compress, small enough to skip.
_ROW_GROUP_ROWS: Final = 131_072
_BUFFERED_BYTES_MAX: Final = 64 * 1024 * 1024
# Larger files gain readers nothing, and would make a task's failure dearer.
_FILE_BYTES_MAX: Final = 512 * 1024 * 1024
# A task that meets more folders than this closes what it has and begins new files.
_OPEN_FILES_MAX: Final = 64
_COMPRESSION: Final = "zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file that a commit can add to the table."""

    path: str
    size_bytes: int
    partition_values: dict[str, str | None]
    row_count: int
    stats: str
    written_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """What a task tells the driver. `schema` is None where it had no rows."""

    files: list[DataFile]
    schema: "pa.Schema | None"


class _Folder(NamedTuple):
    path: str
    values: dict[str, str | None]


class _OpenFile:
    """One file being written, and the rows that wait for their row group."""

    def __init__(
        self, folder: _Folder, schema: "pa.Schema", table: "TableFolder", statistics: list[str]
    ) -> None:
        import pyarrow.parquet as pq

        self._folder = folder
        self._table = table
        self._schema = schema
        self._path = f"{folder.path}part-{uuid.uuid4()}.parquet"
        self._metadata: list[pq.FileMetaData] = []
        self._sink = table.open(self._path)
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=_COMPRESSION,
            write_statistics=statistics,
            # Keys and values rarely repeat, and looking for it costs.
            use_dictionary=statistics,  # type: ignore[arg-type] # the stubs know bool only
            metadata_collector=self._metadata,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self.row_count = 0

    def add(self, batch: "pa.RecordBatch") -> None:
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self.row_count += batch.num_rows
        if self._waiting_rows >= _ROW_GROUP_ROWS:
            self.flush()

    @property
    def waiting_bytes(self) -> int:
        return sum(batch.nbytes for batch in self._waiting)

    @property
    def size_bytes(self) -> int:
        return self._sink.tell()

    def flush(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
            self._waiting = []
            self._waiting_rows = 0

    def close(self) -> DataFile:
        self.flush()
        self._writer.close()
        size_bytes = self._sink.tell()
        self._sink.close()
        self._table.make_durable(self._path)
        return DataFile(
            path=self._path,
            size_bytes=size_bytes,
            partition_values=self._folder.values,
            row_count=self.row_count,
            stats=_stats(self._metadata[0]),
            written_ms=time.time_ns() // 1_000_000,
        )


class TableFolder:
    """Where a table's files are: a path, or a URI of a file system that Arrow knows."""

    def __init__(self, uri: str, storage_options: Mapping[str, str]) -> None:
        from pyarrow import fs

        self._files, self._root = file_system(uri, storage_options)
        self._is_local = isinstance(self._files, fs.LocalFileSystem)
        self._made: set[str] = set()

    def open(self, path: str) -> "pa.NativeFile":
        full = f"{self._root}/{path}"
        folder = full.rpartition("/")[0]
        # Object stores have no folders, and would keep an empty object for each.
        if self._is_local and folder not in self._made:
            self._files.create_dir(folder, recursive=True)
            self._made.add(folder)
        return self._files.open_output_stream(full)

    def read(self, path: str) -> bytes:
        with self._files.open_input_stream(f"{self._root}/{path}") as source:
            return source.read()

    def make_durable(self, path: str) -> None:
        """Object stores keep what they took; a disk must be asked to."""
        if not self._is_local:
            return
        root = Path(self._root)
        place = root / path
        while place != root.parent:
            handle = os.open(place, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            place = place.parent


class DataFileWriter:
    """Writes the rows of one task, a file or more for each combination of partition columns."""

    def __init__(
        self,
        table_uri: str,
        partition_by: Sequence[str],
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._table = TableFolder(table_uri, storage_options or {})
        self._partition_by = list(partition_by)
        self._schema: pa.Schema | None = None
        self._open: dict[str, _OpenFile] = {}
        self._closed: list[DataFile] = []

    def write(self, batch: "pa.RecordBatch") -> None:
        if batch.num_rows == 0:
            return
        schema = stored_schema(batch.schema)
        if self._schema is None or schema != self._schema:
            self._close_all()
            self._schema = schema
        batch = batch.cast(schema)
        for folder, rows in _split(batch, self._partition_by):
            self._file(folder, rows.schema).add(rows)
        if sum(each.waiting_bytes for each in self._open.values()) > _BUFFERED_BYTES_MAX:
            for each in self._open.values():
                each.flush()
        for path in [p for p, each in self._open.items() if each.size_bytes > _FILE_BYTES_MAX]:
            self._closed.append(self._open.pop(path).close())

    def finish(self) -> WrittenFiles:
        self._close_all()
        return WrittenFiles(files=self._closed, schema=self._schema)

    def _file(self, folder: _Folder, schema: "pa.Schema") -> _OpenFile:
        found = self._open.get(folder.path)
        if found is None:
            if len(self._open) >= _OPEN_FILES_MAX:
                self._close_all()
            statistics = [each.name for each in schema if _has_statistics(each.type)]
            found = self._open[folder.path] = _OpenFile(folder, schema, self._table, statistics)
        return found

    def _close_all(self) -> None:
        self._closed += [each.close() for each in self._open.values()]
        self._open.clear()


def _split(
    batch: "pa.RecordBatch", partition_by: list[str]
) -> "Iterator[tuple[_Folder, pa.RecordBatch]]":
    """The rows of each combination of values, without the partition columns."""
    import numpy as np
    import pyarrow as pa

    codes = np.zeros(batch.num_rows, dtype=np.int64)
    dictionaries: list[list[Any]] = []
    for name in partition_by:
        encoded = batch.column(name).dictionary_encode(null_encoding="encode")
        assert isinstance(encoded, pa.DictionaryArray)
        values = encoded.dictionary.to_pylist()
        codes = codes * len(values) + encoded.indices.to_numpy(zero_copy_only=False)
        dictionaries.append(values)
    rows = batch.drop_columns(partition_by) if partition_by else batch
    found = np.unique(codes)
    for code in found.tolist():
        chosen = rows if len(found) == 1 else rows.filter(pa.array(codes == code))
        picked: list[Any] = []
        for values in reversed(dictionaries):
            code, index = divmod(code, len(values))
            picked.append(values[index])
        yield _folder(dict(zip(partition_by, reversed(picked), strict=True))), chosen


def _folder(values: Mapping[str, Any]) -> _Folder:
    texts = {name: _partition_text(name, value) for name, value in values.items()}
    path = "".join(
        f"{name}={_NULL_FOLDER if text is None else quote(text, safe='')}/"
        for name, text in texts.items()
    )
    return _Folder(path, texts)


def _partition_text(name: str, value: object) -> str | None:
    match value:
        case None | "":
            return None  # Delta has no empty text there
        case bool():
            return str(value).lower()
        case int() | str():
            return str(value)
        case datetime.date() if not isinstance(value, datetime.datetime):
            return value.isoformat()
    raise TableMismatch(
        f"column {name!r} is no column to partition by; take a date, a whole number or a text"
    )


def _has_statistics(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return (
        pa.types.is_integer(kind)
        or pa.types.is_date(kind)
        or (pa.types.is_timestamp(kind) and kind.tz is not None)
    )


def _stats(metadata: "pq.FileMetaData") -> str:
    """What readers need to skip files, as Delta's protocol writes it."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    # Columns with values that cannot be told: nobody may skip a file by the others.
    unbounded: set[str] = set()
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            found, name = column.statistics, column.path_in_schema
            if found is None or "." in name:
                continue
            nulls[name] = nulls.get(name, 0) + (found.null_count or 0)
            if not found.has_min_max or name in unbounded:
                continue
            try:
                least: Any = found.min
                most: Any = found.max
            except OverflowError:  # a time after the year 9999
                unbounded.add(name)
                continue
            low[name] = min(low.get(name, least), least)
            high[name] = max(high.get(name, most), most)
    return msgspec.json.encode(
        {
            "numRecords": metadata.num_rows,
            "minValues": {n: _stat(low[n], up=False) for n in low if n not in unbounded},
            "maxValues": {n: _stat(high[n], up=True) for n in high if n not in unbounded},
            "nullCount": nulls,
        }
    ).decode()


def _stat(value: Any, *, up: bool) -> Any:
    """Times go in milliseconds, so the highest is rounded up."""
    if not isinstance(value, datetime.datetime):
        return value.isoformat() if isinstance(value, datetime.date) else value
    if up and value.microsecond % 1000:
        value += datetime.timedelta(milliseconds=1)
    return f"{value.strftime('%Y-%m-%dT%H:%M:%S')}.{value.microsecond // 1000:03d}Z"
