"""Topics, offsets and leaders for code that reads logs without an event loop.

A `LogCluster` belongs to one thread and owns its connections. A connection that breaks after the
first contact is opened again, for as long as `patience_seconds` says.
"""

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponseTopic

from goqueue.client.blocking_cluster import BlockingCluster, LeaderMoved
from goqueue.client.blocking_connection import BlockingConnection
from goqueue.client.errors import BrokerUnreachable, RequestRefused
from goqueue.client.group_facts import PartitionKey
from goqueue.client.questions import offsets_in, offsets_request, words
from goqueue.model.client_security import NO_SECURITY, ClientSecurity
from goqueue.model.errors import UnknownTopic

# A broker that is started again answers after about a second; a leader is chosen within five.
PATIENCE_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 0.2

# The broker that was asked does not lead the partition, or not yet.
LEADER_ERRORS: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.replica_not_available,
        ErrorCode.offset_not_available,
    }
)

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTopic:
    name: str
    id: uuid.UUID
    leaders: Mapping[int, int]
    """Partition -> number of the broker that leads it."""


class LogCluster(BlockingCluster):
    def __init__(
        self,
        bootstrap_servers: str,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        was_reached: bool = False,
        security: ClientSecurity = NO_SECURITY,
    ) -> None:
        """`was_reached`: somebody else has found the brokers running, so be patient at once."""
        super().__init__(bootstrap_servers, security)
        self._patience_seconds = patience_seconds
        self._leaders: dict[PartitionKey, int] = {}
        self._was_reached = was_reached
        self._is_asking = False

    def topics(self, names: Iterable[str] | None = None) -> dict[str, LogTopic]:
        """The named topics, of which none may be missing; all but internal ones for None."""
        wanted = None if names is None else sorted(set(names))
        response = self.patiently(lambda: self._metadata(wanted))
        missing = [
            str(topic.name)
            for topic in response.topics
            if topic.error_code is ErrorCode.unknown_topic_or_partition
        ]
        if missing:
            raise UnknownTopic(
                f"there is no topic {', '.join(map(repr, missing))}; see `goqueue topics list`, "
                f"or make it with `goqueue topics create {missing[0]}`"
            )
        return {
            str(topic.name): self._remember(topic)
            for topic in response.topics
            if wanted is not None or not topic.is_internal
        }

    def offsets(
        self, wanted: Mapping[PartitionKey, int], *, isolation: int
    ) -> dict[PartitionKey, int]:
        """Offsets at EARLIEST, LATEST or a time in ms; -1 where all records are older.

        The latest of read-committed readers is the last stable offset (KIP-98).
        """
        return self.patiently(lambda: self._offsets(wanted, isolation)) if wanted else {}

    def leader(self, place: PartitionKey) -> BlockingConnection:
        """A connection to the broker that leads the partition; do not keep it."""
        return self.node(self.leader_node(place), f"{place[0]}-{place[1]}")

    def leader_node(self, place: PartitionKey) -> int:
        """The number of the broker that leads the partition."""
        if place not in self._leaders:
            topic = self.topics([place[0]])[place[0]]
            if place[1] not in topic.leaders:
                raise UnknownTopic(
                    f"topic {place[0]!r} has {len(topic.leaders)} partitions and no partition "
                    f"{place[1]}"
                )
        return self._leaders[place]

    def forget(self) -> None:
        """Learn leaders anew, over new connections."""
        self.close()
        self._leaders.clear()

    def patiently(self, ask: Callable[[], _Answer]) -> _Answer:
        """Ask again while brokers come and go; at once an error where none was ever reached."""
        if self._is_asking:  # one patience for a question and those it takes to answer it
            return ask()
        self._is_asking = True
        try:
            return self._repeatedly(ask)
        finally:
            self._is_asking = False

    def _repeatedly(self, ask: Callable[[], _Answer]) -> _Answer:
        deadline: float | None = None
        while True:
            try:
                answer = ask()
            except BrokerUnreachable:
                self.forget()
                now = time.monotonic()
                deadline = deadline or now + self._patience_seconds
                if not self._was_reached or now >= deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                self._was_reached = True
                return answer

    def _metadata(self, names: list[str] | None) -> MetadataResponse:
        response = self.metadata(names)
        for topic in response.topics:
            if topic.error_code in LEADER_ERRORS:
                raise LeaderMoved(f"topic {topic.name!r} has no leaders at the moment")
            if topic.error_code not in (ErrorCode.none, ErrorCode.unknown_topic_or_partition):
                reason = words(topic.error_code)
                raise RequestRefused(f"topic {topic.name!r}: {reason}", int(topic.error_code))
        return response

    def _remember(self, topic: MetadataResponseTopic) -> LogTopic:
        name = str(topic.name)
        leaders = {
            int(part.partition_index): int(part.leader_id)
            for part in sorted(topic.partitions, key=lambda part: part.partition_index)
        }
        self._leaders |= {(name, partition): node for partition, node in leaders.items()}
        return LogTopic(name=name, id=topic.topic_id or uuid.UUID(int=0), leaders=leaders)

    def _offsets(
        self, wanted: Mapping[PartitionKey, int], isolation: int
    ) -> dict[PartitionKey, int]:
        by_leader: dict[BlockingConnection, list[PartitionKey]] = defaultdict(list)
        for place in sorted(wanted):
            by_leader[self.leader(place)].append(place)
        found: dict[PartitionKey, int] = {}
        for connection, places in by_leader.items():
            asked = offsets_request({place: wanted[place] for place in places}, isolation=isolation)
            answered = offsets_in(connection.call(asked, ListOffsetsResponse))
            for place, (code, offset) in answered.items():
                _check(code, place)
                found[place] = offset
        return found


def _check(code: ErrorCode, place: PartitionKey) -> None:
    subject = f"{place[0]}-{place[1]}"
    if code in LEADER_ERRORS:
        raise LeaderMoved(f"the leader of {subject} has moved")
    if code is ErrorCode.unknown_topic_or_partition:
        raise UnknownTopic(f"topic {place[0]!r} has no partition {place[1]}, or was deleted")
    if code is not ErrorCode.none:
        raise RequestRefused(f"{subject}: {words(code)}", int(code))
