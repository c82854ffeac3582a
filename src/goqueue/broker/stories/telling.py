"""What brokers tell each other, so that each can note what happens where it is.

A group's coordinator knows what the group has committed, and the broker that a member read from
knows which of these messages are traced. A leader knows which messages it traces for another reason
than their offsets, and whoever leads after it must go on with their stories. Both are told to the
brokers that have replicas of the partition, a little later and in one message for each. What cannot
be told is lost: a story lacks an event, and nothing else happens.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec

from goqueue.broker.background import ended
from goqueue.broker.calls.calls import Calls
from goqueue.broker.tracing.recorder import now_us
from goqueue.broker.tracing.tracing import Tracing
from goqueue.model.calls import Method
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import OffsetCommit, OffsetCommitResult
from goqueue.model.names import NodeId
from goqueue.model.tracing.spans import GroupCommit, TracedMessage
from goqueue.state.metadata_image import MetadataImage

logger = logging.getLogger(__name__)

# As long as a story may lack what happened last.
TELL_EVERY_S: Final = 0.25
TELL_TIMEOUT_S: Final = 2.0
# Of a quarter of a second: positions of groups in partitions, and traced messages.
COMMITS_MAX: Final = 10_000
ADOPTED_MAX: Final = 1_000


class Told(msgspec.Struct, frozen=True):
    commits: list[GroupCommit]
    adopted: list[TracedMessage]


TELL: Final = Method("stories.tell", Told, bool)


class StoryTelling:
    def __init__(
        self, tracing: Tracing, calls: Calls, *, image: Callable[[], MetadataImage]
    ) -> None:
        self._tracing = tracing
        self._calls = calls
        self._image = image
        # The last of each group in each partition: it includes those before.
        self._commits: dict[tuple[str, int, str], GroupCommit] = {}
        self._adopted: deque[TracedMessage] = deque(maxlen=ADOPTED_MAX)
        self._telling: asyncio.Task[None] | None = None
        calls.serve(TELL, self._told)

    def start(self) -> None:
        """In a cluster, where there are others to tell."""
        if self._tracing.is_enabled:
            self._tracing.tell_adopted(self._adopted.append)
            self._telling = asyncio.create_task(self._tell_forever())

    async def close(self) -> None:
        await ended(self._telling)

    def offsets_committed(self, request: OffsetCommit, result: OffsetCommitResult) -> None:
        """By a group whose coordinator this broker is."""
        self._tracing.offsets_committed(request, result)
        if self._telling is None:
            return
        time_us, group, member = now_us(), request.group_id, request.member_id
        for wanted, done in zip(request.offsets, result.partitions, strict=False):
            topic, index, offset = wanted.topic, wanted.partition, wanted.offset
            if done.error is GroupError.NONE and len(self._commits) < COMMITS_MAX:
                commit = GroupCommit(topic, index, group, member, offset, time_us)
                self._commits[topic, index, group] = commit

    async def _tell_forever(self) -> None:
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            for node, told in self._by_broker().items():
                try:
                    await self._calls.ask_broker(TELL, node, told, timeout_s=TELL_TIMEOUT_S)
                except GoQueueError as error:
                    logger.debug("broker %d was not told of traced messages: %s", node, error)

    def _by_broker(self) -> dict[NodeId, Told]:
        commits, self._commits = self._commits, {}
        adopted = [self._adopted.popleft() for _ in range(len(self._adopted))]
        if not commits and not adopted:
            return {}
        found: dict[NodeId, Told] = {node: Told([], []) for node in self._calls.others()}
        is_traced = cache(self._tracing.is_traced)
        for commit in commits.values():
            if is_traced(commit.topic):
                for node in found.keys() & self._replicas(commit.topic, commit.partition):
                    found[node].commits.append(commit)
        for message in adopted:
            for node in found.keys() & self._replicas(message.topic, message.partition):
                found[node].adopted.append(message)
        return {node: told for node, told in found.items() if told.commits or told.adopted}

    def _replicas(self, topic: str, index: int) -> set[NodeId]:
        view = self._image().topics.get(topic)
        is_there = view is not None and index < len(view.partitions)
        return set(view.partitions[index].replicas) if view is not None and is_there else set()

    async def _told(self, told: Told) -> bool:
        for commit in told.commits:
            self._tracing.committed_elsewhere(commit)
        for message in told.adopted:
            self._tracing.adopted_elsewhere(message)
        return True
