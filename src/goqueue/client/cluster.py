"""What an administrator asks of a cluster: elections, and to forget a node."""

import datetime
from collections.abc import Sequence
from typing import Final, NamedTuple

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse
from kio.static.primitive import i8, i32, i32Timedelta

from goqueue.client.admin import KafkaAdmin
from goqueue.client.errors import RequestRefused
from goqueue.client.group_facts import PartitionKey
from goqueue.client.questions import words

_ELECTION_TIMEOUT: Final = i32Timedelta.parse(datetime.timedelta(seconds=30))
# Kafka's numbers (KIP-460).
_PREFERRED: Final = i8(0)
_UNCLEAN: Final = i8(1)


class Elected(NamedTuple):
    """`problem` is why another does not lead now; None where it does, or did already."""

    topic: str
    partition: int
    is_new: bool
    problem: str | None


class ClusterAdmin:
    """Works through the connections of a `KafkaAdmin`."""

    def __init__(self, admin: KafkaAdmin) -> None:
        self._admin = admin

    async def elect(
        self, partitions: Sequence[PartitionKey] | None, *, unclean: bool = False
    ) -> list[Elected]:
        """Let the first of their replicas lead; of all partitions for None. Of all, those are
        answered where something happened. `unclean`: any replica, where nobody leads."""
        controller = await self._admin.controller()
        response = await controller.call(
            ElectLeadersRequest(
                election_type=_UNCLEAN if unclean else _PREFERRED,
                topic_partitions=None if partitions is None else _by_topic(partitions),
                timeout=_ELECTION_TIMEOUT,
            ),
            ElectLeadersResponse,
        )
        if response.error_code is not ErrorCode.none:
            raise RequestRefused(words(response.error_code), int(response.error_code))
        return sorted(
            Elected(
                str(topic.topic),
                int(result.partition_id),
                result.error_code is ErrorCode.none,
                _problem(result.error_code, result.error_message),
            )
            for topic in response.replica_election_results
            for result in topic.partition_result
        )

    async def forget_node(self, node_id: int) -> None:
        """Take a node out of the cluster for good."""
        controller = await self._admin.controller()
        response = await controller.call(
            UnregisterBrokerRequest(broker_id=BrokerId(node_id)), UnregisterBrokerResponse
        )
        if response.error_code is not ErrorCode.none:
            reason = response.error_message or words(response.error_code)
            raise RequestRefused(f"node {node_id}: {reason}", int(response.error_code))


def _by_topic(partitions: Sequence[PartitionKey]) -> tuple[TopicPartitions, ...]:
    topics: dict[str, list[i32]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(i32(partition))
    return tuple(
        TopicPartitions(topic=TopicName(topic), partitions=tuple(numbers))
        for topic, numbers in topics.items()
    )


def _problem(code: ErrorCode, message: str | None) -> str | None:
    if code in (ErrorCode.none, ErrorCode.election_not_needed):
        return None
    return message or words(code)
