"""Commits of members that live in the broker: by hand, and of their positions."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from goqueue.broker.hosted_clients.members.member import HostedMember
from goqueue.broker.hosted_clients.members.surroundings import MemberSurroundings
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    CommittedPartition,
    OffsetCommit,
    OffsetToCommit,
)
from goqueue.model.groups.refusals import GroupRefused
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.rights import MemberRights

logger = logging.getLogger(__name__)

# How often positions are committed for a member that asked for it, as Kafka's clients do.
AUTO_COMMIT_INTERVAL_MS: Final = 5_000


class Commits:
    def __init__(self, broker: MemberSurroundings) -> None:
        self._broker = broker

    async def commit(
        self,
        member: HostedMember,
        offsets: Sequence[OffsetToCommit],
        rights: MemberRights,
        epoch: int | None = None,
    ) -> tuple[CommittedPartition, ...]:
        """Commit for a member; `epoch` is the generation or epoch it believes to be in."""
        request = OffsetCommit(
            group_id=member.group_id,
            offsets=tuple(offsets),
            generation_id=member.epoch if epoch is None else epoch,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
        )
        result = await self._broker.groups.commit(rights.group, rights.commit(request))
        member.committed_ms = self._broker.clock_ms()
        for wanted, done in zip(offsets, result.partitions, strict=True):
            if done.error is GroupError.NONE:
                place = topic_partition(wanted.topic, wanted.partition)
                member.committed[place] = wanted.offset
        return result.partitions

    async def commit_positions(self, member: HostedMember, rights: MemberRights) -> None:
        """The automatic commit: everything delivered counts as done. Failing, it comes again."""
        if not member.auto_commit:
            return
        # Of topics that were taken away from the client nothing is committed any more; it may still
        # leave.
        moved = member.uncommitted()
        offsets = positions_to_commit(
            {place: at for place, at in moved.items() if rights.topic(place.topic) is not None}
        )
        if not offsets:
            return
        for done in await self.commit(member, offsets, rights):
            if done.error is not GroupError.NONE:
                error = GroupRefused(done.error)
                logger.info("%s: positions not committed: %s", member.group_id, error)
                return

    async def commit_when_due(self, member: HostedMember, rights: MemberRights) -> None:
        if self._broker.clock_ms() - member.committed_ms >= AUTO_COMMIT_INTERVAL_MS:
            await self.commit_positions(member, rights)


def positions_to_commit(positions: Mapping[TopicPartition, int]) -> list[OffsetToCommit]:
    return [
        OffsetToCommit(topic=partition.topic, partition=partition.partition, offset=offset)
        for partition, offset in sorted(positions.items())
    ]
