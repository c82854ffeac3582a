"""What followers ask of a leader."""

from collections.abc import Coroutine, Hashable, Mapping
from typing import Any
from uuid import UUID

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.log import FetchedPart, FetchPart
from goqueue.model.replication import Member
from goqueue.service.log import ReadyParts
from goqueue.service.security.access import Access


class ReplicationService:
    def __init__(self, node: Node, access: Access) -> None:
        self._topics = node.topics
        self._serving = node.replica_serving
        self._access = access

    def check(self, caller: Caller) -> None:
        """Whether the caller may act as a broker of this cluster."""
        self._access.acting_cluster(caller)

    def name_of(self, caller: Caller, topic_id: UUID) -> str:
        """Whose id it is, for a broker that copies the topic."""
        self._access.acting_cluster(caller)
        return self._topics.find_by_id(topic_id).name

    def fetch(
        self,
        caller: Caller,
        follower: Member,
        ready: ReadyParts,
        parts: Mapping[Hashable, FetchPart],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        looks_at_all: bool,
    ) -> Coroutine[Any, Any, dict[Hashable, FetchedPart]]:
        """Batches up to the log's end; what is asked for says what the follower has."""
        return self._serving.fetch(
            self._access.acting_cluster(caller),
            follower,
            ready,
            parts,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            looks_at_all=looks_at_all,
        )
