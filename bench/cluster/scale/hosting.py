"""What one broker pays for each log that it has: files, memory, and time at a start."""

import gc
import time
from pathlib import Path
from typing import Final

import msgspec

from bench.cluster.scale.costs import full_collection_s, resident_bytes, watched
from bench.cluster.scale.imagined import Size, entries
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.model.batch import read_header
from goqueue.model.names import NodeId
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.topic_config import topic_config
from goqueue.state.metadata_image import MetadataImage
from goqueue.storage.clean_stop import CleanStop, LogEnd
from goqueue.storage.data_directory import DataDirectory
from goqueue.storage.disk import Disk

_NODE: Final = NodeId(1)
_RECORDS: Final = 10
_VALUE: Final = b"x" * 100
_FILES_MAX: Final = 400
_PRODUCERS_MAX: Final = 10_000
_DAY_MS: Final = 86_400_000
_LAG_MAX_MS: Final = 4_000


class HostingFigures(msgspec.Struct):
    logs: int = 0
    # Of each log, with one batch in it.
    files: float = 0.0
    disk_bytes: float = 0.0
    memory_bytes: float = 0.0
    made_s: float = 0.0
    clean_open_s: float = 0.0
    clean_open_cpu_s: float = 0.0
    killed_open_s: float = 0.0
    killed_open_cpu_s: float = 0.0
    # Looking for garbage among all objects of these logs.
    collection_s: float = 0.0


class UnsyncedDisk(Disk):
    """For what is only to be there before the measurement begins."""

    def fdatasync(self, fd: int) -> None:
        del fd

    def fsync_dir(self, path: Path) -> None:
        del path


async def measure(folder: Path, logs: int) -> HostingFigures:
    figures = HostingFigures(logs=logs)
    size = Size(brokers=1, partitions=logs, replicas=1)
    image = MetadataImage.load(entries(size), revision=1)
    gc.disable()
    try:
        await _make(folder, image, figures)
        before = resident_bytes()
        hosted, directory, times = _opened(folder, image)
        figures.clean_open_s, figures.clean_open_cpu_s = (each / logs for each in times)
        figures.memory_bytes = (resident_bytes() - before) / logs
        figures.collection_s = full_collection_s() / logs
        await hosted.close()
        directory.close(None)
        hosted, directory, times = _opened(folder, image)
        figures.killed_open_s, figures.killed_open_cpu_s = (each / logs for each in times)
        await hosted.close()
        directory.close(None)
    finally:
        gc.enable()
    return figures


async def _make(folder: Path, image: MetadataImage, figures: HostingFigures) -> None:
    """Topic by topic, for a broker that stops leaves logs open that it cannot close in time."""
    directory = DataDirectory.open(folder, UnsyncedDisk())
    batch = encode_records([NewRecord(value=_VALUE)] * _RECORDS, now_ms=_now_ms())
    ended: dict[str, LogEnd] = {}
    for topic in image.topics.values():
        hosted = _hosted(directory, UnsyncedDisk())
        with watched() as making:
            await hosted.host(topic)
        figures.made_s += making.wall_s / figures.logs
        for partition in hosted:
            partition.log.append(batch, [(0, read_header(batch))], now_ms=_now_ms())
        ended |= await hosted.close()
    assert len(ended) == figures.logs, "not all logs could be closed: the machine is too busy"
    directory.close(CleanStop(logs=ended))
    files = [path for path in directory.logs_path.rglob("*") if path.is_file()]
    figures.files = len(files) / figures.logs
    figures.disk_bytes = sum(path.stat().st_blocks * 512 for path in files) / figures.logs


def _opened(
    folder: Path, image: MetadataImage
) -> tuple[HostedPartitions, DataDirectory, tuple[float, float]]:
    """As a broker opens them; and for how long that takes, by the clock and of the processor."""
    directory = DataDirectory.open(folder)
    hosted = _hosted(directory, Disk())
    with watched() as opening:
        hosted.load(image)
    return hosted, directory, (opening.wall_s, opening.cpu_s)


def _hosted(directory: DataDirectory, disk: Disk) -> HostedPartitions:
    config = topic_config({})
    return HostedPartitions(
        directory,
        node_id=_NODE,
        disk=disk,
        clock_ms=_now_ms,
        topic_config=lambda _: config,
        producer_expiration_ms=_DAY_MS,
        max_producers=_PRODUCERS_MAX,
        max_open_log_files=_FILES_MAX,
        make_trace=lambda _topic, _partition, _config: None,
        replica_lag_max_ms=_LAG_MAX_MS,
        is_alone=False,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
