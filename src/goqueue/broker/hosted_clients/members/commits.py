"""Commits of members that live in the broker: by hand, and of their positions."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from goqueue.broker.hosted_clients.members.host import MemberHost
from goqueue.broker.hosted_clients.members.sessions import MemberSession
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    CommittedPartition,
    OffsetCommit,
    OffsetToCommit,
)
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.names import TopicPartition, topic_partition

logger = logging.getLogger(__name__)

# How often positions are committed for a member that asked for it, as Kafka's clients do.
AUTO_COMMIT_INTERVAL_MS: Final = 5_000


class Commits:
    def __init__(self, host: MemberHost) -> None:
        self._host = host

    async def commit(
        self, session: MemberSession, offsets: Sequence[OffsetToCommit], epoch: int | None = None
    ) -> tuple[CommittedPartition, ...]:
        """Commit for a member; `epoch` is the generation or epoch it believes to be in."""
        result = await self._host.groups.commit(
            OffsetCommit(
                group_id=session.group_id,
                offsets=tuple(offsets),
                generation_id=session.epoch if epoch is None else epoch,
                member_id=session.member_id,
                group_instance_id=session.instance_id,
            )
        )
        session.committed_ms = self._host.clock_ms()
        for wanted, done in zip(offsets, result.partitions, strict=True):
            if done.error is GroupError.NONE:
                place = topic_partition(wanted.topic, wanted.partition)
                session.committed[place] = wanted.offset
        return result.partitions

    async def commit_positions(self, session: MemberSession) -> None:
        """The automatic commit: everything delivered counts as done. Failing, it comes again."""
        if not session.auto_commit:
            return
        offsets = positions_to_commit(session.uncommitted())
        if not offsets:
            return
        for done in await self.commit(session, offsets):
            if done.error is not GroupError.NONE:
                error = GroupRefused(done.error)
                logger.info("%s: positions not committed: %s", session.group_id, error)
                return

    async def commit_when_due(self, session: MemberSession) -> None:
        if self._host.clock_ms() - session.committed_ms >= AUTO_COMMIT_INTERVAL_MS:
            await self.commit_positions(session)


def positions_to_commit(positions: Mapping[TopicPartition, int]) -> list[OffsetToCommit]:
    return [
        OffsetToCommit(topic=partition.topic, partition=partition.partition, offset=offset)
        for partition, offset in sorted(positions.items())
    ]
