"""The disk of the data folder: how large it is, and what each partition takes of it."""

from collections.abc import Iterable
from pathlib import Path

from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.model.errors import UnknownLogDir
from goqueue.model.log import DiskSpace, LogDirView, StoredPartitionSize
from goqueue.model.rights import AlterableCluster, DescribableCluster
from goqueue.pace import in_slices
from goqueue.storage.data_directory import DataDirectory
from goqueue.storage.disk import Disk


class DataDisk:
    def __init__(self, directory: DataDirectory, disk: Disk, hosted: HostedPartitions) -> None:
        self._path = directory.path
        self._disk = disk
        self._hosted = hosted

    def space(self, _cluster: DescribableCluster) -> DiskSpace:
        stats = self._disk.statvfs(self._path)
        return DiskSpace(stats.f_frsize * stats.f_blocks, stats.f_frsize * stats.f_bavail)

    async def describe(
        self, cluster: DescribableCluster, names: Iterable[tuple[str, int]] | None = None
    ) -> LogDirView:
        """With these partitions; None: with all. There may be thousands."""
        asked = tuple(self._hosted) if names is None else (self._hosted.get(*n) for n in names)
        partitions = [
            StoredPartitionSize(*hosted.name, hosted.log.size_bytes, hosted.lag)
            async for hosted in in_slices(asked)
            if hosted is not None
        ]
        return LogDirView(str(self._path), self.space(cluster), partitions)

    def check_path(self, _cluster: AlterableCluster, path: str) -> None:
        """Raise unless this is the directory in which all replicas are."""
        if "\0" in path or Path(path).absolute() != self._path.absolute():
            raise UnknownLogDir(f"log directory {path!r}: this broker has {str(self._path)!r} only")
