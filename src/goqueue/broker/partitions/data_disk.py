"""The disk of the data folder: how large it is, and what each partition takes of it."""

from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.model.log import DiskSpace, LogDirView, StoredPartitionSize
from goqueue.model.rights import DescribableCluster
from goqueue.pace import Pace
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

    async def describe(self, cluster: DescribableCluster) -> LogDirView:
        partitions: list[StoredPartitionSize] = []
        pace = Pace()  # there may be thousands
        for hosted in tuple(self._hosted):
            name = hosted.name
            partitions.append(
                StoredPartitionSize(name.topic, name.partition, hosted.log.size_bytes, hosted.lag)
            )
            if pace.is_over:
                await pace.rest()
        return LogDirView(str(self._path), self.space(cluster), partitions)
