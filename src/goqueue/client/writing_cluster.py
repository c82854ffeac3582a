"""What a writer must know of a cluster: leaders, limits, coordinators; and connections to them."""

from dataclasses import dataclass
from typing import Final

from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse

from goqueue.client.blocking_cluster import BlockingCluster
from goqueue.client.blocking_connection import BlockingConnection
from goqueue.client.errors import BrokerUnreachable, RequestRefused
from goqueue.client.questions import (
    TOPIC_RESOURCE,
    coordinator_in,
    coordinator_request,
    setting_in,
    setting_request,
    words,
)
from goqueue.model.client_security import NO_SECURITY, ClientSecurity

_SIZE_LIMIT: Final = "max.message.bytes"
# Kafka's default, for a broker that does not tell.
_SIZE_LIMIT_DEFAULT: Final = 1_048_588


@dataclass(frozen=True, slots=True)
class TopicToWrite:
    name: str
    # By partition; -1 where there is none now.
    leaders: tuple[int, ...]
    max_batch_bytes: int

    @property
    def partition_count(self) -> int:
        return len(self.leaders)


class WritingCluster(BlockingCluster):
    def __init__(self, bootstrap_servers: str, security: ClientSecurity = NO_SECURITY) -> None:
        super().__init__(bootstrap_servers, security)
        self._topics: dict[str, TopicToWrite] = {}

    def topic(self, name: str) -> TopicToWrite:
        """Made now if the broker makes topics that are asked for."""
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = self._ask_for(name)
        return found

    def leader(self, topic: str, partition: int) -> BlockingConnection:
        node = self.topic(topic).leaders[partition]
        return self.node(node, f"partition {partition} of topic {topic!r}")

    def coordinator(self, transactional_id: str | None) -> BlockingConnection:
        """Of a transactional id; without one, any broker gives out producer ids."""
        entrance = self.any_broker()
        if transactional_id is None:
            return entrance
        asked = coordinator_request(transactional_id, transactional=True)
        try:
            found = coordinator_in(entrance.call(asked, FindCoordinatorResponse), transactional_id)
        except RequestRefused as error:
            # Whatever keeps a coordinator away passes.
            raise BrokerUnreachable(error.message) from error
        return self.at((found.host, int(found.port)))

    def forget(self) -> None:
        """Something failed: leaders may have moved, connections may be dead."""
        self.close()
        self._topics.clear()

    def _ask_for(self, name: str) -> TopicToWrite:
        topic = self.metadata([name], makes_topics=True).topics[0]
        _check_topic(topic.error_code, name)
        leaders = {int(each.partition_index): int(each.leader_id) for each in topic.partitions}
        asked = setting_request(TOPIC_RESOURCE, [name], _SIZE_LIMIT)
        limit = setting_in(self.any_broker().call(asked, DescribeConfigsResponse), _SIZE_LIMIT)
        return TopicToWrite(
            name,
            tuple(leaders[index] for index in range(len(leaders))),
            int(limit) if limit else _SIZE_LIMIT_DEFAULT,
        )


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
    raise RequestRefused(f"topic {name!r}: {words(code)}", int(code))
