"""What both stacks ask brokers, without input and output: requests, and what their answers mean.

`connection.py` carries them on an event loop, `blocking_connection.py` without one.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.list_offsets.v7.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from goqueue.client.errors import RequestRefused
from goqueue.client.group_facts import PartitionKey

# Where a broker listens.
Address = tuple[str, int]

TOPIC_RESOURCE: Final = i8(2)
BROKER_RESOURCE: Final = i8(4)
_ANY_REPLICA: Final = BrokerId(-1)
_GROUP_KEY: Final = i8(0)
_TRANSACTION_KEY: Final = i8(1)


def words(code: ErrorCode) -> str:
    return code.name.replace("_", " ")


# --- topics and brokers -------------------------------------------------------------------


def metadata_request(names: Iterable[str] | None, *, makes_topics: bool = False) -> MetadataRequest:
    """Of the named topics; of all for None. Brokers are told in any case."""
    wanted = (
        None
        if names is None
        else tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in names)
    )
    return MetadataRequest(
        topics=wanted,
        allow_auto_topic_creation=makes_topics,
        include_topic_authorized_operations=False,
    )


def broker_addresses(response: MetadataResponse) -> dict[int, Address]:
    return {int(node.node_id): (node.host, int(node.port)) for node in response.brokers}


# --- coordinators -------------------------------------------------------------------------


def coordinator_request(key: str, *, transactional: bool = False) -> FindCoordinatorRequest:
    kind = _TRANSACTION_KEY if transactional else _GROUP_KEY
    return FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))


def coordinator_in(response: FindCoordinatorResponse, key: str) -> Coordinator:
    found = response.coordinators[0]
    if found.error_code is not ErrorCode.none:
        reason = found.error_message or words(found.error_code)
        raise RequestRefused(f"coordinator of {key!r}: {reason}", int(found.error_code))
    return found


# --- offsets ------------------------------------------------------------------------------


def offsets_request(wanted: Mapping[PartitionKey, int], *, isolation: int) -> ListOffsetsRequest:
    """Offsets at EARLIEST, LATEST or times in ms."""
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in sorted(wanted.items()):
        by_topic.setdefault(topic, []).append(
            ListOffsetsPartition(partition_index=i32(partition), timestamp=i64(timestamp))
        )
    return ListOffsetsRequest(
        replica_id=_ANY_REPLICA,
        isolation_level=i8(isolation),
        topics=tuple(
            ListOffsetsTopic(name=TopicName(topic), partitions=tuple(partitions))
            for topic, partitions in by_topic.items()
        ),
    )


def offsets_in(response: ListOffsetsResponse) -> dict[PartitionKey, tuple[ErrorCode, int]]:
    return {
        (str(topic.name), int(part.partition_index)): (part.error_code, int(part.offset))
        for topic in response.topics
        for part in topic.partitions
    }


# --- settings -----------------------------------------------------------------------------


def setting_request(resource: i8, names: Iterable[str], setting: str) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(
                resource_type=resource, resource_name=name, configuration_keys=(setting,)
            )
            for name in names
        )
    )


def setting_in(response: DescribeConfigsResponse, setting: str) -> str | None:
    """None where the broker does not tell."""
    return next(
        (entry.value for entry in response.results[0].configs if entry.name == setting), None
    )
