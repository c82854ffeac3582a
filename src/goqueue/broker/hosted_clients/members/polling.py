"""Reading for a member: a long poll over its partitions, from its positions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from goqueue.broker.hosted_clients.members.commits import Commits
from goqueue.broker.hosted_clients.members.member import HostedMember
from goqueue.broker.hosted_clients.members.surroundings import MemberRights, MemberSurroundings
from goqueue.broker.partitions.committed_records import content_bytes
from goqueue.broker.tracing.reading import note_read
from goqueue.model.errors import Conflict, GoQueueError, OffsetOutOfRange
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.hosted_members import OffsetReset, PolledRecord
from goqueue.model.groups.messages import NO_OFFSET, OffsetFetch
from goqueue.model.groups.refusals import check
from goqueue.model.log import FetchedPart, FetchPart, Isolation
from goqueue.model.names import TopicPartition, by_topic, topic_partition
from goqueue.model.rights import ReadablePart

# A waiting poll looks this often whether the group has changed: a rebalance that others wait for
# should take less than a second.
HEARTBEAT_INTERVAL_MS: Final = 500
# Record bytes read for one poll (one record at least), and of one partition of it.
POLL_MAX_BYTES: Final = 4 * 1024 * 1024
PARTITION_MAX_BYTES: Final = 1024 * 1024

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
    ) -> list[PolledRecord]:
        """Records from the member's positions on, which move past them. Raises what a heartbeat
        raises, also while waiting."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + timeout_ms / 1000
        with _alone(member):
            await heartbeat()
            await self._commits.commit_when_due(member, rights)
            failed: set[TopicPartition] = set()
            while True:
                await self.find_positions(member, rights)
                wait_ms = max(
                    0, min(HEARTBEAT_INTERVAL_MS, round((give_up_at - loop.time()) * 1000))
                )
                parts = _parts(member, failed, rights)
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
            listed = await self._broker.log.list_offset(
                topic, place.partition, _TIMESTAMP_OF[member.offset_reset], isolation=_ISOLATION
            )
        except GoQueueError:
            return  # offline or deleted: it is left out, and asked for again by the next poll
        member.positions[place] = listed.offset

    async def _read(
        self,
        member: HostedMember,
        parts: Sequence[ReadablePart],
        failed: set[TopicPartition],
        rights: MemberRights,
        max_records: int,
        wait_ms: int,
    ) -> tuple[list[PolledRecord], bool]:
        """What was found, and whether any position moved."""
        found = await self._broker.log.fetch(
            parts, max_wait_ms=wait_ms, min_bytes=1, max_bytes=POLL_MAX_BYTES, isolation=_ISOLATION
        )
        member.turn += 1
        records: list[PolledRecord] = []
        moved = False
        left_bytes = POLL_MAX_BYTES
        for part, fetched in zip(parts, found, strict=True):
            place = topic_partition(part.topic, part.index)
            if fetched.error is not None:
                moved |= await self._recover(member, fetched, failed, rights)
            elif (
                len(records) < max_records
                and left_bytes > 0
                and fetched.data
                and place in member.assigned
            ):
                run = await self._broker.log.records_of(
                    part, fetched, limit=max_records - len(records), max_bytes=left_bytes
                )
                left_bytes -= sum(content_bytes(record) for record in run.records)
                records += [PolledRecord(place, record) for record in run.records]
                trace = self._broker.hosted.trace_of(part.topic, part.index)
                note_read(trace, run.records, member.member_id, member.group_id)
                member.positions[place] = run.next_offset
                moved = True
        return records, moved

    async def _recover(
        self,
        member: HostedMember,
        fetched: FetchedPart,
        failed: set[TopicPartition],
        rights: MemberRights,
    ) -> bool:
        place = topic_partition(fetched.topic, fetched.index)
        failed.add(place)
        if not isinstance(fetched.error, OffsetOutOfRange):
            return False
        # Retention was faster than the reader, or the topic was made anew.
        before = member.positions.pop(place, None)
        await self._reset(member, place, rights)
        return member.positions.get(place) != before


@contextmanager
def _alone(member: HostedMember) -> Iterator[None]:
    if member.is_polling:
        raise Conflict(f"member {member.member_id!r} is polling already; one poll at a time")
    member.is_polling = True
    try:
        yield
    finally:
        member.is_polling = False


def _parts(
    member: HostedMember, failed: set[TopicPartition], rights: MemberRights
) -> list[ReadablePart]:
    places = sorted(place for place in member.assigned - failed if place in member.positions)
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
