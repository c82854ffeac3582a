"""What a writer must know of a cluster: leaders, limits, coordinators; and connections to them."""

from dataclasses import dataclass
from typing import Final

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import TopicName
from kio.static.primitive import i8

from goqueue.client.addresses import parse_addresses
from goqueue.client.blocking_connection import BlockingConnection, first_reachable
from goqueue.client.errors import BrokerUnreachable, RequestRefused

_TOPIC_RESOURCE: Final = i8(2)
_TRANSACTION_KEY: Final = i8(1)
_SIZE_LIMIT: Final = "max.message.bytes"
# Kafka's default, for a broker that does not tell.
_SIZE_LIMIT_DEFAULT: Final = 1_048_588


@dataclass(frozen=True, slots=True)
class WritableTopic:
    name: str
    # By partition; -1 where there is none now.
    leaders: tuple[int, ...]
    max_batch_bytes: int

    @property
    def partition_count(self) -> int:
        return len(self.leaders)


class WritingCluster:
    """Owns its connections; a failed one is made anew when it is needed next."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap = parse_addresses(bootstrap_servers)
        self._addresses: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[str, int], BlockingConnection] = {}
        self._topics: dict[str, WritableTopic] = {}

    def topic(self, name: str) -> WritableTopic:
        """Made now if the broker makes topics that are asked for."""
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = self._ask_for(name)
        return found

    def leader(self, topic: str, partition: int) -> BlockingConnection:
        node = self.topic(topic).leaders[partition]
        if node not in self._addresses:
            raise BrokerUnreachable(f"partition {partition} of topic {topic!r} has no leader now")
        return self._connection(self._addresses[node])

    def coordinator(self, transactional_id: str | None) -> BlockingConnection:
        """Of a transactional id; without one, any broker gives out producer ids."""
        entrance = self._entrance()
        if transactional_id is None:
            return entrance
        request = FindCoordinatorRequest(
            key_type=_TRANSACTION_KEY, coordinator_keys=(transactional_id,)
        )
        found = entrance.call(request, FindCoordinatorResponse).coordinators[0]
        if found.error_code is not ErrorCode.none:
            raise BrokerUnreachable(
                f"no coordinator for {transactional_id!r}: {found.error_message}"
            )
        return self._connection((found.host, int(found.port)))

    def forget(self) -> None:
        """Something failed: leaders may have moved, connections may be dead."""
        self.close()
        self._connections.clear()
        self._topics.clear()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _ask_for(self, name: str) -> WritableTopic:
        request = MetadataRequest(
            topics=(MetadataRequestTopic(topic_id=None, name=TopicName(name)),),
            allow_auto_topic_creation=True,
            include_topic_authorized_operations=False,
        )
        entrance = self._entrance()
        response = entrance.call(request, MetadataResponse)
        self._addresses = {
            int(node.node_id): (node.host, int(node.port)) for node in response.brokers
        }
        topic = response.topics[0]
        _check_topic(topic.error_code, name)
        leaders = {int(each.partition_index): int(each.leader_id) for each in topic.partitions}
        return WritableTopic(
            name,
            tuple(leaders[index] for index in range(len(leaders))),
            _size_limit(entrance, name),
        )

    def _entrance(self) -> BlockingConnection:
        return first_reachable(self._bootstrap, self._connection)

    def _connection(self, address: tuple[str, int]) -> BlockingConnection:
        if address not in self._connections:
            self._connections[address] = BlockingConnection(*address)
        return self._connections[address]


def _check_topic(code: ErrorCode, name: str) -> None:
    if code is ErrorCode.none:
        return
    if code is ErrorCode.unknown_topic_or_partition:
        raise RequestRefused(
            f"topic {name!r} does not exist, and the broker does not make topics by itself; "
            f"make it first: goqueue topics create {name}",
            int(code),
        )
    if code is ErrorCode.leader_not_available:
        raise BrokerUnreachable(f"topic {name!r} has no leader yet")
    raise RequestRefused(f"topic {name!r}: {code.name.replace('_', ' ')}", int(code))


def _size_limit(broker: BlockingConnection, topic: str) -> int:
    asked = DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=(_SIZE_LIMIT,)
    )
    response = broker.call(DescribeConfigsRequest(resources=(asked,)), DescribeConfigsResponse)
    for entry in response.results[0].configs:
        if entry.name == _SIZE_LIMIT and entry.value:
            return int(entry.value)
    return _SIZE_LIMIT_DEFAULT
