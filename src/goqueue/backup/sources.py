"""Where the data of a backup come from: see `running_source.py` and `stopped_source.py`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from goqueue.model.backups import CutPartition
from goqueue.model.batch import BatchHeader, Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How far every partition of a node or cluster goes at one moment, and its metadata."""

    cluster_id: str
    is_cluster: bool
    taken_at_ms: int
    partitions: list[CutPartition]
    metadata: dict[str, str]


class StoredBatch(NamedTuple):
    """The content is good until the next one is asked for."""

    content: Buffer
    header: BatchHeader


class LogReader(Protocol):
    """Belongs to one thread."""

    def batches(self, cut: CutPartition, start: int) -> Iterator[StoredBatch]:
        """From the batch that holds `start` to the cut; `OffsetOutOfRange` if that is gone."""

    def start_of(self, cut: CutPartition) -> int:
        """Where the log starts by now."""

    def close(self) -> None: ...


class Source(Protocol):
    """What lies before the cut stays as it is until `close`, but for what retention deletes."""

    def cut(self) -> Cut: ...

    def reader(self) -> LogReader: ...

    def check(self) -> None:
        """`BackupFailed` if what was said of the cut may not hold any more."""

    def close(self) -> None: ...
