"""The sink that Spark sees of a Delta table: tasks write files, the driver commits them."""

import base64
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from goqueue.spark.archive.delta_files import DataFileWriter, WrittenFiles
from goqueue.spark.archive.delta_table import BatchMark, TableTarget, commit_files
from goqueue.spark.plain_errors import plain_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from goqueue.spark.archive.delta_table import RowStep

_FORMAT: Final = "goqueue-delta"
# Holds what opens the object store: by this name Spark hides it from plans and its web page.
_WRITE: Final = "write.secret"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWrite:
    target: TableTarget
    mark: BatchMark | None
    overwrite: bool
    step: "RowStep | None"


@dataclass
class FilesWritten(WriterCommitMessage):
    written: WrittenFiles


class DeltaSink(DataSource):
    """Not for users: what is written is an object in one option."""

    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        return DeltaWriter(pickle.loads(base64.b64decode(self.options[_WRITE])))


@plain_errors
class DeltaWriter(DataSourceArrowWriter):
    def __init__(self, write: TableWrite) -> None:
        self._write = write

    def write(self, iterator: Iterator[Any]) -> FilesWritten:
        target, step = self._write.target, self._write.step
        writer = DataFileWriter(target.uri, target.partition_by, target.storage_options)
        for batch in iterator if step is None else step(iterator):
            writer.write(batch)
        return FilesWritten(writer.finish())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        parts = [each.written for each in messages if isinstance(each, FilesWritten)]
        write = self._write
        commit_files(write.target, write.mark, parts, overwrite=write.overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to undo: files without a commit are not of the table.

        They are left for vacuum, because Spark may also abort what was committed.
        """


def save(frame: "DataFrame", write: TableWrite) -> None:
    frame.sparkSession.dataSource.register(DeltaSink)
    encoded = base64.b64encode(pickle.dumps(write)).decode()
    frame.write.format(_FORMAT).option(_WRITE, encoded).mode("append").save()
