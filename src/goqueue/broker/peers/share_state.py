"""What coordinators of share groups ask of the leaders of partitions, who keep their state."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from goqueue.broker.peers.connections import Peers
from goqueue.model.errors import NotLeader
from goqueue.model.names import NodeId


class SharePeers:
    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self.leader_elsewhere = peers.leader_elsewhere

    async def delete(
        self, node_id: NodeId, group: str, partitions: Mapping[UUID, Sequence[int]]
    ) -> None:
        """Forget what a group did in partitions, by topic id; all that another broker leads."""
        from kio.schema.delete_share_group_state.v0.request import (
            DeleteShareGroupStateRequest,
            DeleteStateData,
            PartitionData,
        )
        from kio.schema.delete_share_group_state.v0.response import DeleteShareGroupStateResponse
        from kio.schema.errors import ErrorCode
        from kio.static.primitive import i32

        topics = tuple(
            DeleteStateData(
                topic_id=topic_id,
                partitions=tuple(PartitionData(partition=i32(index)) for index in indexes),
            )
            for topic_id, indexes in partitions.items()
        )
        request = DeleteShareGroupStateRequest(group_id=group, topics=topics)
        response = await self._peers.call(node_id, request, DeleteShareGroupStateResponse)
        for topic in response.results:
            for part in topic.partitions:
                if part.error_code is not ErrorCode.none:
                    reason = part.error_message or part.error_code.name
                    raise NotLeader(f"broker {node_id} keeps what group {group!r} did: {reason}")
