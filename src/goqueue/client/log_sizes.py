"""How large the records of partitions are, on average."""

from collections.abc import Iterable
from typing import Final

from kio.schema.describe_log_dirs.v4.request import DescribableLogDirTopic, DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v4.response import DescribeLogDirsResponse
from kio.schema.types import TopicName
from kio.static.primitive import i32

from goqueue.client.group_facts import PartitionKey
from goqueue.client.log_cluster import LogCluster
from goqueue.client.log_ranges import EARLIEST, LATEST, READ_UNCOMMITTED

# Where nothing is known, such as for a partition that is just being filled.
_TYPICAL_RECORD_BYTES: Final = 1024.0


def mean_record_bytes(
    cluster: LogCluster, places: Iterable[PartitionKey]
) -> dict[PartitionKey, float]:
    """Bytes in the log per offset; a compacted log has fewer records than offsets."""
    wanted = list(places)
    first = cluster.offsets(dict.fromkeys(wanted, EARLIEST), isolation=READ_UNCOMMITTED)
    last = cluster.offsets(dict.fromkeys(wanted, LATEST), isolation=READ_UNCOMMITTED)
    sizes = cluster.patiently(lambda: {place: _size(cluster, place) for place in wanted})
    return {
        place: sizes[place] / (last[place] - first[place])
        if sizes[place] and last[place] > first[place]
        else _TYPICAL_RECORD_BYTES
        for place in wanted
    }


def _size(cluster: LogCluster, place: PartitionKey) -> int:
    topic, partition = place
    response = cluster.leader(place).call(
        DescribeLogDirsRequest(
            topics=(DescribableLogDirTopic(topic=TopicName(topic), partitions=(i32(partition),)),)
        ),
        DescribeLogDirsResponse,
    )
    return max(
        (
            int(part.partition_size)
            for directory in response.results
            for found in directory.topics
            for part in found.partitions
        ),
        default=0,
    )
