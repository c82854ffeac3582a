"""Administration of topics: list, create, describe, alter, delete."""

import asyncio
import datetime
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse
from kio.schema.create_topics.v7.request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeleteTopicsResponse
from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.describe_cluster.v1.response import DescribeClusterResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v4.response import DescribeLogDirsResponse
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponseTopic
from kio.schema.types import TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta

from goqueue.client.addresses import parse_addresses
from goqueue.client.connection import Connection
from goqueue.client.errors import BrokerUnreachable, RequestRefused
from goqueue.client.group_facts import PartitionKey
from goqueue.client.log_ranges import EARLIEST, LATEST, READ_UNCOMMITTED
from goqueue.client.questions import (
    TOPIC_RESOURCE,
    Address,
    broker_addresses,
    coordinator_in,
    coordinator_request,
    metadata_request,
    offsets_in,
    offsets_request,
    setting_in,
    setting_request,
    words,
)
from goqueue.client.topic_facts import PartitionFacts, TopicFacts, TopicSetting
from goqueue.model.client_security import NO_SECURITY, ClientSecurity
from goqueue.model.layouts import LAYOUT_SETTING, Split, splits_in

# How long the broker may work on one change; our own time-out is longer.
_CHANGE_TIMEOUT: Final = i32Timedelta.parse(datetime.timedelta(seconds=30))
# Kafka's numbers for the operations of IncrementalAlterConfigs (KIP-339).
_SET: Final = i8(0)
_DELETE: Final = i8(1)
# Where a value comes from, in DescribeConfigs' numbers (KIP-226).
_SOURCE_TOPIC: Final = 1
_SOURCE_DEFAULT: Final = 5

# Offsets or sizes.
_ByPartition = dict[PartitionKey, int]


class KafkaAdmin:
    def __init__(self, bootstrap_servers: str, security: ClientSecurity = NO_SECURITY) -> None:
        self._bootstrap = parse_addresses(bootstrap_servers)
        self._security = security
        self._entrance: Connection | None = None
        self._by_node: dict[int, Connection] = {}
        # Brokers that could not be reached: what only they know is missing in lists.
        self.silent: dict[int, BrokerUnreachable] = {}

    async def __aenter__(self) -> Self:
        failure: BrokerUnreachable | None = None
        for host, port in self._bootstrap:
            try:
                self._entrance = await Connection.open(host, port, self._security)
                return self
            except BrokerUnreachable as error:
                failure = failure or error
        assert failure is not None, "parse_addresses returns at least one"
        raise failure

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        connections = [*self._by_node.values(), *([self._entrance] if self._entrance else [])]
        await asyncio.gather(*(connection.close() for connection in connections))

    @property
    def _any_broker(self) -> Connection:
        assert self._entrance is not None, "use `async with`"
        return self._entrance

    async def brokers(self) -> list[Connection]:
        """Connections to all brokers that are there; Metadata names some that are gone, too."""
        request = DescribeClusterRequest(include_cluster_authorized_operations=False)
        found = await self._any_broker.call(request, DescribeClusterResponse)
        for broker in found.brokers:
            await self._reach(int(broker.broker_id), (broker.host, int(broker.port)))
        return list(self._by_node.values())

    async def _reach(self, node: int, address: Address) -> None:
        if node not in self._by_node:
            try:
                self._by_node[node] = await Connection.open(*address, self._security)
            except BrokerUnreachable as error:
                self.silent[node] = error

    async def controller(self) -> Connection:
        """A connection to the broker that elects leaders."""
        found = await self._metadata(())
        node, nodes = int(found.controller_id), broker_addresses(found)
        if node not in nodes:
            raise RequestRefused("the cluster has no controller now; try again", -1)
        if node not in self._by_node:
            self._by_node[node] = await Connection.open(*nodes[node], self._security)
        return self._by_node[node]

    async def coordinator(self, key: str, *, transactional: bool = False) -> Connection:
        """A connection to the broker that looks after a group or a transactional id."""
        asked = coordinator_request(key, transactional=transactional)
        response = await self._any_broker.call(asked, FindCoordinatorResponse)
        found = coordinator_in(response, key)
        node = int(found.node_id)
        if node not in self._by_node:
            self._by_node[node] = await Connection.open(found.host, int(found.port), self._security)
        return self._by_node[node]

    async def topic_names(self) -> list[str]:
        found = await self._metadata(None)
        return sorted(topic.name for topic in found.topics if topic.name is not None)

    async def describe_topics(
        self, names: Sequence[str] | None = None, *, with_sizes: bool = True
    ) -> list[TopicFacts]:
        """Facts of the named topics (all if None), by name; an unknown one is refused."""
        found = await self._metadata(names)
        for topic in found.topics:
            _check(topic.error_code, None, f"topic {topic.name!r}")
        nodes = broker_addresses(found)
        await self._connect(nodes, found.topics)
        starts = await self._offsets(found.topics, EARLIEST)
        ends = await self._offsets(found.topics, LATEST)
        sizes = await self._sizes() if with_sizes else {}
        return sorted(
            (_topic_facts(topic, starts, ends, sizes) for topic in found.topics),
            key=lambda topic: topic.name,
        )

    async def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """Per partition the first offset whose record is that young; none where all are older."""
        found = await self._metadata([topic])
        _check(found.topics[0].error_code, None, f"topic {topic!r}")
        nodes = broker_addresses(found)
        await self._connect(nodes, found.topics)
        offsets = await self._offsets(found.topics, timestamp_ms)
        return {partition: offset for (_, partition), offset in offsets.items() if offset >= 0}

    async def describe_settings(self, topic: str) -> list[TopicSetting]:
        response = await self._any_broker.call(
            DescribeConfigsRequest(
                resources=(
                    DescribeConfigsResource(
                        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None
                    ),
                )
            ),
            DescribeConfigsResponse,
        )
        result = response.results[0]
        _check(result.error_code, result.error_message, f"topic {topic!r}")
        return [
            TopicSetting(
                name=entry.name,
                value=entry.value or "",
                is_default=entry.config_source == _SOURCE_DEFAULT,
                is_own=entry.config_source == _SOURCE_TOPIC,
            )
            for entry in sorted(result.configs, key=lambda entry: entry.name)
        ]

    async def splits(self, topic: str) -> tuple[Split, ...]:
        """None of those that the broker does not tell of, such as Kafka."""
        response = await self._any_broker.call(
            setting_request(TOPIC_RESOURCE, [topic], LAYOUT_SETTING), DescribeConfigsResponse
        )
        return splits_in(setting_in(response, LAYOUT_SETTING) or "[]")

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """None leaves a count to the broker's defaults (KIP-464)."""
        response = await self._any_broker.call(
            CreateTopicsRequest(
                topics=(
                    CreatableTopic(
                        name=TopicName(name),
                        num_partitions=i32(-1 if partitions is None else partitions),
                        replication_factor=i16(
                            -1 if replication_factor is None else replication_factor
                        ),
                        assignments=(),
                        configs=tuple(
                            CreatableTopicConfig(name=key, value=value)
                            for key, value in (settings or {}).items()
                        ),
                    ),
                ),
                timeout=_CHANGE_TIMEOUT,
            ),
            CreateTopicsResponse,
        )
        result = response.topics[0]
        _check(result.error_code, result.error_message, f"topic {name!r}")

    async def delete_topic(self, name: str) -> None:
        response = await self._any_broker.call(
            DeleteTopicsRequest(
                topics=(DeleteTopicState(name=TopicName(name), topic_id=None),),
                timeout=_CHANGE_TIMEOUT,
            ),
            DeleteTopicsResponse,
        )
        result = response.responses[0]
        _check(result.error_code, result.error_message, f"topic {name!r}")

    async def add_partitions(self, name: str, total: int) -> None:
        response = await self._any_broker.call(
            CreatePartitionsRequest(
                topics=(
                    CreatePartitionsTopic(name=TopicName(name), count=i32(total), assignments=None),
                ),
                timeout=_CHANGE_TIMEOUT,
                validate_only=False,
            ),
            CreatePartitionsResponse,
        )
        result = response.results[0]
        _check(result.error_code, result.error_message, f"topic {name!r}")

    async def alter_settings(
        self, topic: str, *, changed: Mapping[str, str], removed: Sequence[str] = ()
    ) -> None:
        """Change some settings of a topic; a removed one takes the broker's default again."""
        changes = [
            AlterableConfig(name=name, config_operation=_SET, value=value)
            for name, value in changed.items()
        ]
        changes += [
            AlterableConfig(name=name, config_operation=_DELETE, value=None) for name in removed
        ]
        response = await self._any_broker.call(
            IncrementalAlterConfigsRequest(
                resources=(
                    AlterConfigsResource(
                        resource_type=TOPIC_RESOURCE, resource_name=topic, configs=tuple(changes)
                    ),
                ),
                validate_only=False,
            ),
            IncrementalAlterConfigsResponse,
        )
        result = response.responses[0]
        _check(result.error_code, result.error_message, f"topic {topic!r}")

    async def _metadata(self, names: Sequence[str] | None) -> MetadataResponse:
        return await self._any_broker.call(metadata_request(names), MetadataResponse)

    async def _connect(
        self, nodes: Mapping[int, Address], topics: Sequence[MetadataResponseTopic]
    ) -> None:
        leaders = {int(p.leader_id) for topic in topics for p in topic.partitions}
        for node in leaders & nodes.keys():
            await self._reach(node, nodes[node])

    async def _offsets(
        self, topics: Sequence[MetadataResponseTopic], timestamp: int
    ) -> _ByPartition:
        by_leader: dict[int, dict[PartitionKey, int]] = defaultdict(dict)
        for topic in topics:
            for partition in topic.partitions:
                key = (str(topic.name), int(partition.partition_index))
                by_leader[int(partition.leader_id)][key] = timestamp
        offsets: _ByPartition = {}
        for leader, wanted in by_leader.items():
            if leader not in self._by_node:
                continue
            asked = offsets_request(wanted, isolation=READ_UNCOMMITTED)
            response = await self._by_node[leader].call(asked, ListOffsetsResponse)
            for key, (code, offset) in offsets_in(response).items():
                if code is ErrorCode.none:
                    offsets[key] = offset
        return offsets

    async def _sizes(self) -> _ByPartition:
        """Bytes on the leaders' disks."""
        sizes: _ByPartition = {}
        for connection in self._by_node.values():
            response = await connection.call(
                DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse
            )
            for directory in response.results:
                for topic in directory.topics:
                    for partition in topic.partitions:
                        place = (str(topic.name), int(partition.partition_index))
                        sizes[place] = max(sizes.get(place, 0), int(partition.partition_size))
        return sizes


def _topic_facts(
    topic: MetadataResponseTopic, starts: _ByPartition, ends: _ByPartition, sizes: _ByPartition
) -> TopicFacts:
    name = str(topic.name)
    return TopicFacts(
        name=name,
        id=str(topic.topic_id),
        is_internal=topic.is_internal,
        partitions=tuple(
            PartitionFacts(
                partition=int(p.partition_index),
                leader=int(p.leader_id),
                leader_epoch=int(p.leader_epoch),
                replicas=tuple(int(node) for node in p.replica_nodes),
                in_sync=tuple(int(node) for node in p.isr_nodes),
                start_offset=starts.get((name, int(p.partition_index))),
                end_offset=ends.get((name, int(p.partition_index))),
                size_bytes=sizes.get((name, int(p.partition_index))),
            )
            for p in sorted(topic.partitions, key=lambda p: p.partition_index)
        ),
    )


def _check(code: ErrorCode, message: str | None, subject: str) -> None:
    if code is ErrorCode.none:
        return
    plain = {
        ErrorCode.unknown_topic_or_partition: f"there is no {subject}; see `goqueue topics list`",
        ErrorCode.topic_already_exists: f"{subject} exists already",
    }
    reason = plain.get(code) or message or words(code)
    raise RequestRefused(reason, int(code))
