"""Reading for a member: a long poll over its partitions, from its positions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import Final

from goqueue.broker.calls.passing import PASSING
from goqueue.broker.hosted_clients.members.commits import Commits
from goqueue.broker.hosted_clients.members.member import HostedMember
from goqueue.broker.hosted_clients.members.surroundings import MemberSurroundings
from goqueue.broker.reading.several_logs import ReadSeveral
from goqueue.model.errors import (
    Conflict,
    GoQueueError,
    OffsetOutOfRange,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.hosted_members import OffsetReset, PolledRecord
from goqueue.model.groups.messages import NO_OFFSET, OffsetFetch
from goqueue.model.groups.refusals import check
from goqueue.model.log import FetchPart, Isolation
from goqueue.model.names import TopicPartition, by_topic, topic_partition
from goqueue.model.rights import MemberRights, ReadablePart

# A waiting poll looks this often whether the group has changed: a rebalance that others wait for
# should take less than a second.
HEARTBEAT_INTERVAL_MS: Final = 500
# Record bytes read for one poll (one record at least), and of one partition of it.
POLL_MAX_BYTES: Final = 4 * 1024 * 1024
PARTITION_MAX_BYTES: Final = 1024 * 1024
# For the end of a member's poll before: a connection that is lost is noticed within a moment.
PREVIOUS_POLL_SECONDS: Final = 1.0

_ISOLATION: Final = Isolation.READ_COMMITTED
_TIMESTAMP_OF: Final = {OffsetReset.EARLIEST: -2, OffsetReset.LATEST: -1}

Heartbeat = Callable[[], Awaitable[None]]


class Polling:
    def __init__(self, broker: MemberSurroundings, commits: Commits) -> None:
        self._broker = broker
        self._commits = commits

    async def poll(
        self,
        member: HostedMember,
        heartbeat: Heartbeat,
        rights: MemberRights,
        *,
        max_records: int,
        timeout_ms: int,
        after: int | None,
    ) -> list[PolledRecord]:
        """Records from the member's positions on, which move past them. Raises what a heartbeat
        raises, also while waiting. `after` is the last answer that the client has."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + timeout_ms / 1000
        async with _alone(member):
            member.seen(after)
            await heartbeat()
            await self._commits.commit_when_due(member, rights)
            # Until when each is left out.
            failed: dict[TopicPartition, float] = {}
            while True:
                await self.find_positions(member, rights)
                wait_ms = max(
                    0, min(HEARTBEAT_INTERVAL_MS, round((give_up_at - loop.time()) * 1000))
                )
                now = loop.time()
                parts = _parts(member, {at for at, until in failed.items() if until > now}, rights)
                if parts:
                    records, moved = await self._read(
                        member, parts, failed, rights, max_records, wait_ms
                    )
                else:
                    records, moved = [], False
                    await asyncio.sleep(wait_ms / 1000)
                if records or (not moved and loop.time() >= give_up_at):
                    return records
                await heartbeat()

    async def find_positions(self, member: HostedMember, rights: MemberRights) -> None:
        """Begin new partitions at the group's offsets, or where the member asked to."""
        missing = member.assigned - member.positions.keys()
        if not missing:
            return
        fetched = await self._broker.groups.fetch_offsets(
            rights.group,
            OffsetFetch(group_id=member.group_id, topics=by_topic(missing), require_stable=True),
        )
        check(fetched.error)
        for found in fetched.offsets:
            place = topic_partition(found.topic, found.partition)
            if found.error is GroupError.NONE:
                if found.offset == NO_OFFSET:
                    await self._reset(member, place, rights)
                else:
                    member.positions[place] = member.committed[place] = found.offset
            # An open transaction may still commit an offset there: the next poll asks again.

    async def _reset(
        self, member: HostedMember, place: TopicPartition, rights: MemberRights
    ) -> None:
        topic = rights.topic(place.topic)
        if topic is None:
            return
        try:
            listed = await self._broker.log_anywhere.list_offset(
                topic,
                place.partition,
                _TIMESTAMP_OF[member.offset_reset],
                isolation=_ISOLATION,
                patience_s=0,
            )
        except GoQueueError:
            return  # offline or deleted: it is left out, and asked for again by the next poll
        member.positions[place] = listed.offset

    async def _read(
        self,
        member: HostedMember,
        parts: list[ReadablePart],
        failed: dict[TopicPartition, float],
        rights: MemberRights,
        max_records: int,
        wait_ms: int,
    ) -> tuple[list[PolledRecord], bool]:
        """What was found, and whether any position moved."""
        found = await self._broker.log_anywhere.several.read(
            ReadSeveral(
                parts,
                limit=max_records,
                max_bytes=POLL_MAX_BYTES,
                max_wait_ms=wait_ms,
                isolation=_ISOLATION,
                reader=member.member_id,
                group=member.group_id,
            )
        )
        member.turn += 1
        records: list[PolledRecord] = []
        before: dict[TopicPartition, int] = {}
        moved = False
        for read in found:
            part = parts[read.position]
            place = topic_partition(part.topic, part.index)
            error = read.error
            if error is not None:
                moved |= await self._recover(member, place, error, failed, rights)
            elif place in member.assigned and member.positions.get(place) == part.offset:
                records += [PolledRecord(place, record) for record in read.records]
                before[place] = part.offset
                member.positions[place] = read.next_offset
                moved = True
        if records:
            member.answered(before)
        return records, moved

    async def _recover(
        self,
        member: HostedMember,
        place: TopicPartition,
        error: GoQueueError,
        failed: dict[TopicPartition, float],
        rights: MemberRights,
    ) -> bool:
        is_passing = isinstance(error, PASSING)
        now = asyncio.get_running_loop().time()
        failed[place] = now + HEARTBEAT_INTERVAL_MS / 1000 if is_passing else inf
        if not isinstance(error, OffsetOutOfRange):
            return False
        # Retention was faster than the reader, or the topic was made anew.
        before = member.positions.pop(place, None)
        await self._reset(member, place, rights)
        return member.positions.get(place) != before


@asynccontextmanager
async def _alone(member: HostedMember) -> AsyncIterator[None]:
    """One poll at a time. Of a client that comes again through another broker, the one before may
    be about to end."""
    before = member.polling
    if before is not None:
        await asyncio.wait((before,), timeout=PREVIOUS_POLL_SECONDS)
    if member.polling is not None:
        raise Conflict(f"member {member.member_id!r} is polling already; one poll at a time")
    member.polling = ended = asyncio.get_running_loop().create_future()
    try:
        yield
    finally:
        member.polling = None
        ended.set_result(None)


def _parts(
    member: HostedMember, left_out: set[TopicPartition], rights: MemberRights
) -> list[ReadablePart]:
    places = sorted(place for place in member.assigned - left_out if place in member.positions)
    if not places:
        return []
    first = member.turn % len(places)
    parts = (
        rights.part(
            FetchPart(place.topic, place.partition, member.positions[place], PARTITION_MAX_BYTES)
        )
        for place in places[first:] + places[:first]
    )
    return [part for part in parts if part is not None]
