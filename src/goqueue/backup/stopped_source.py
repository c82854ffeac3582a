"""The folder of a node of one that was stopped in order; nothing in it is changed."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from goqueue.backup.errors import BackupFailed
from goqueue.backup.sources import Cut, StoredBatch
from goqueue.metadata.local import stored_entries, stored_revision
from goqueue.model.backups import CutPartition
from goqueue.model.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES, check_batch
from goqueue.model.errors import CorruptBatch
from goqueue.model.names import topic_partition
from goqueue.state import metadata_keys as keys
from goqueue.storage.clean_stop import LogEnd
from goqueue.storage.data_directory import FORMAT_FILE, NODE_FILE, WORKERS_FILE, FolderFormat
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import load
from goqueue.storage.mending.stopped_folder import StoppedFolder, stopped_folder
from goqueue.storage.open_file import OpenFile
from goqueue.storage.segment_files import LOG_SUFFIX, base_offset_in, file_name

_READ_BYTES: Final = 4 * 1024 * 1024
# Of segments, where a topic does not say otherwise: for the size of chunks only.
_SEGMENT_BYTES: Final = 1024 * 1024 * 1024


class StoppedSource:
    """Holds the folder's lock, so that no broker starts meanwhile."""

    def __init__(self, data_dir: Path) -> None:
        if (data_dir / WORKERS_FILE).is_file():
            raise BackupFailed(
                f"{data_dir} is the folder of several workers; start it with `goqueue serve "
                f"--data-dir {data_dir} --workers …`, and make the backup while it runs"
            )
        self._path = data_dir
        self._disk = Disk()
        self._opened = ExitStack()
        self._folder = self._opened.enter_context(stopped_folder(self._disk, data_dir))

    def cut(self) -> Cut:
        if (self._path / NODE_FILE).exists():
            raise BackupFailed(
                f"{self._path} belongs to a node of a cluster, which may lack what others have; "
                "start the cluster, and give --bootstrap instead"
            )
        known = load(self._disk, self._path / FORMAT_FILE, FolderFormat)
        assert known is not None, "stopped_folder has seen it"
        entries = stored_entries(self._folder.metadata)
        stop = self._folder.last_stop
        if stop is None or stop.logs is None or stop.metadata_revision is None:
            raise BackupFailed(
                f"the broker on {self._path} was not stopped in order; start it and make the "
                "backup while it runs, or stop it with SIGTERM first"
            )
        if stored_revision(self._folder.metadata) < stop.metadata_revision:
            raise BackupFailed(
                f"the metadata in {self._path} lost its end since the broker stopped; see `goqueue "
                f"data check --data-dir {self._path}`"
            )
        partitions = list(_partitions(entries, stop.logs, self._folder, self._disk))
        return Cut(
            cluster_id=known.cluster_id,
            is_cluster=False,
            taken_at_ms=time.time_ns() // 1_000_000,
            partitions=partitions,
            metadata={key: value.decode() for key, value in entries.items()},
        )

    def reader(self) -> "StoppedLogReader":
        return StoppedLogReader(self._folder, self._disk)

    def check(self) -> None:
        """Whoever holds the lock is alone."""

    def close(self) -> None:
        self._opened.close()


def _partitions(
    entries: dict[str, bytes], logs: dict[str, LogEnd], folder: StoppedFolder, disk: Disk
) -> Iterator[CutPartition]:
    for key, value in entries.items():
        match keys.parse_key(key):
            case keys.TopicKey(name):
                topic = keys.decode_value(key, value, keys.TopicValue)
                # A policy that the topic does not have itself is the broker's, which nobody knows.
                policy = topic.config.get("cleanup.policy", "compact")
                segment_bytes = topic.config.get("segment.bytes", "")
                for index in range(topic.partitions):
                    place = str(topic_partition(name, index))
                    end = logs.get(place)
                    if end is None:
                        raise BackupFailed(
                            f"{place} was not closed in order; start the broker, and make the "
                            "backup while it runs"
                        )
                    yield CutPartition(
                        topic=name,
                        topic_id=topic.id,
                        partition=index,
                        start=end.start,
                        end=end.end,
                        size_bytes=sum(
                            disk.stat(folder.logs / place / each).st_size
                            for each in disk.listdir(folder.logs / place)
                            if base_offset_in(each, LOG_SUFFIX) is not None
                        ),
                        segment_bytes=int(segment_bytes) if segment_bytes else _SEGMENT_BYTES,
                        is_compacted="compact" in policy,
                    )


class StoppedLogReader:
    def __init__(self, folder: StoppedFolder, disk: Disk) -> None:
        self._folder = folder
        self._disk = disk

    def start_of(self, cut: CutPartition) -> int:
        return cut.start

    def close(self) -> None:
        """Files are open only while they are read."""

    def batches(self, cut: CutPartition, start: int) -> Iterator[StoredBatch]:
        place = str(topic_partition(cut.topic, cut.partition))
        folder = self._folder.logs / place
        names = self._disk.listdir(folder)
        found = (base_offset_in(name, LOG_SUFFIX) for name in names)
        bases = sorted(base for base in found if base is not None)
        # The last segment that begins at or before `start`, and those after it.
        before = [base for base in bases if base <= start]
        reached = before[-1] if before else cut.start
        for base in bases:
            if base < reached or reached >= cut.end:
                continue
            path = folder / file_name(base, LOG_SUFFIX)
            try:
                for batch in self._batches_in(path):
                    header = batch.header
                    if header.base_offset != reached:
                        raise CorruptBatch(f"offset {header.base_offset} follows on {reached}")
                    reached = header.next_offset
                    if header.last_offset >= start and header.base_offset < cut.end:
                        yield batch
            except CorruptBatch as error:
                raise BackupFailed(
                    f"{path} is damaged: {error}; see `goqueue data check --data-dir "
                    f"{self._folder.logs.parent}`"
                ) from error
        if reached < cut.end:
            raise BackupFailed(
                f"{place} ends at offset {reached}; it ended at {cut.end} when the broker stopped; "
                f"see `goqueue data check --data-dir {self._folder.logs.parent}`"
            )

    def _batches_in(self, path: Path) -> Iterator[StoredBatch]:
        with OpenFile(self._disk, path) as file:
            position, held = 0, b""
            while part := file.read(_READ_BYTES, position):
                position += len(part)
                held += part
                at = 0
                while len(held) - at >= HEADER_BYTES:
                    size = LENGTH_PREFIX_BYTES + int.from_bytes(
                        held[at + 8 : at + 12], "big", signed=True
                    )
                    if size > len(held) - at:
                        break
                    header = check_batch(held, at)
                    yield StoredBatch(memoryview(held)[at : at + size], header)
                    at += size
                held = held[at:]
            if held:
                raise CorruptBatch(f"{len(held)} bytes at the end are no batch")
