"""The disk of the data folder: how large it is, and what each partition takes of it."""

from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.model.log import LogDirView, StoredPartitionSize
from goqueue.model.rights import DescribableCluster
from goqueue.storage.data_directory import DataDirectory
from goqueue.storage.disk import Disk


class DataDisk:
    def __init__(self, directory: DataDirectory, disk: Disk, hosted: HostedPartitions) -> None:
        self._path = directory.path
        self._disk = disk
        self._hosted = hosted

    def describe(self, _cluster: DescribableCluster) -> LogDirView:
        stats = self._disk.statvfs(self._path)
        return LogDirView(
            path=str(self._path),
            total_bytes=stats.f_frsize * stats.f_blocks,
            usable_bytes=stats.f_frsize * stats.f_bavail,
            partitions=tuple(
                StoredPartitionSize(p.name.topic, p.name.partition, p.log.size_bytes, p.lag)
                for p in self._hosted
            ),
        )
