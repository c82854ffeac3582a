"""How far another broker knows the metadata, and who is there as it sees it."""

from typing import Final

from goqueue.broker.peers.connections import Peers
from goqueue.model.errors import BrokerUnreachable
from goqueue.model.names import NodeId
from goqueue.state.membership.seclusion import Knowledge

_METADATA: Final = "__cluster_metadata"
# Who is asked is well, or another one is; and the question comes again.
_ANSWER_MAX_S: Final = 1.0


class QuorumPeers:
    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def ask(self, node_id: NodeId) -> Knowledge:
        """By DescribeQuorum: where the metadata stand in a broker's eyes, and who is admitted."""
        from kio.schema.describe_quorum.v2.request import (
            DescribeQuorumRequest,
            PartitionData,
            TopicData,
        )
        from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse
        from kio.schema.errors import ErrorCode
        from kio.schema.types import TopicName
        from kio.static.primitive import i32

        metadata = TopicData(
            topic_name=TopicName(_METADATA), partitions=(PartitionData(partition_index=i32(0)),)
        )
        response = await self._peers.call(
            node_id,
            DescribeQuorumRequest(topics=(metadata,)),
            DescribeQuorumResponse,
            timeout_s=_ANSWER_MAX_S,
        )
        for topic in response.topics:
            for part in topic.partitions:
                if part.error_code is ErrorCode.none:
                    directories = {
                        NodeId(voter.replica_id): voter.replica_directory_id
                        for voter in part.current_voters
                    }
                    return Knowledge(part.high_watermark, directories)
        raise BrokerUnreachable(
            f"broker {node_id} does not tell what it knows: {response.error_message}"
        )
