"""Reading for a member: a long poll over its partitions, from its positions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from goqueue.broker.hosted_clients.members.commits import Commits
from goqueue.broker.hosted_clients.members.host import MemberHost, by_topic
from goqueue.broker.hosted_clients.members.sessions import MemberSession, OffsetReset
from goqueue.broker.partitions.committed_records import committed_records
from goqueue.broker.tracing.reading import note_read
from goqueue.model.errors import Conflict, GoQueueError, OffsetOutOfRange
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import NO_OFFSET, OffsetFetch
from goqueue.model.groups.refusals import check
from goqueue.model.log import FetchedPart, FetchPart, Isolation
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.records import Record

# A waiting poll looks this often whether the group has changed: a rebalance that others wait for
# should take less than a second.
HEARTBEAT_INTERVAL_MS: Final = 500
# Record bytes read for one poll (one record at least), and of one partition of it.
POLL_MAX_BYTES: Final = 4 * 1024 * 1024
PARTITION_MAX_BYTES: Final = 1024 * 1024

_ISOLATION: Final = Isolation.READ_COMMITTED
_TIMESTAMP_OF: Final = {OffsetReset.EARLIEST: -2, OffsetReset.LATEST: -1}

Heartbeat = Callable[[], Awaitable[None]]


class PolledRecord(NamedTuple):
    partition: TopicPartition
    record: Record


class Polling:
    def __init__(self, host: MemberHost, commits: Commits) -> None:
        self._host = host
        self._commits = commits

    async def poll(
        self, session: MemberSession, heartbeat: Heartbeat, *, max_records: int, timeout_ms: int
    ) -> list[PolledRecord]:
        """Records from the member's positions on, which move past them. Raises what a heartbeat
        raises, also while waiting."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + timeout_ms / 1000
        with _alone(session):
            await heartbeat()
            await self._commits.commit_when_due(session)
            failed: set[TopicPartition] = set()
            while True:
                await self.find_positions(session)
                wait_ms = max(
                    0, min(HEARTBEAT_INTERVAL_MS, round((give_up_at - loop.time()) * 1000))
                )
                parts = _parts(session, failed)
                if parts:
                    records, moved = await self._read(session, parts, failed, max_records, wait_ms)
                else:
                    records, moved = [], False
                    await asyncio.sleep(wait_ms / 1000)
                if records or (not moved and loop.time() >= give_up_at):
                    return records
                await heartbeat()

    async def find_positions(self, session: MemberSession) -> None:
        """Begin new partitions at the group's offsets, or where the member asked to."""
        missing = session.assigned - session.positions.keys()
        if not missing:
            return
        fetched = await self._host.groups.fetch_offsets(
            OffsetFetch(group_id=session.group_id, topics=by_topic(missing), require_stable=True)
        )
        check(fetched.error)
        for found in fetched.offsets:
            place = topic_partition(found.topic, found.partition)
            if found.error is GroupError.NONE:
                if found.offset == NO_OFFSET:
                    await self._reset(session, place)
                else:
                    session.positions[place] = session.committed[place] = found.offset
            # An open transaction may still commit an offset there: the next poll asks again.

    async def _reset(self, session: MemberSession, place: TopicPartition) -> None:
        try:
            listed = await self._host.list_offset(
                *place, _TIMESTAMP_OF[session.offset_reset], isolation=_ISOLATION
            )
        except GoQueueError:
            return  # offline or deleted: it is left out, and asked for again by the next poll
        session.positions[place] = listed.offset

    async def _read(
        self,
        session: MemberSession,
        parts: Sequence[FetchPart],
        failed: set[TopicPartition],
        max_records: int,
        wait_ms: int,
    ) -> tuple[list[PolledRecord], bool]:
        """What was found, and whether any position moved."""
        found = await self._host.fetch(
            parts, max_wait_ms=wait_ms, min_bytes=1, max_bytes=POLL_MAX_BYTES, isolation=_ISOLATION
        )
        session.turn += 1
        records: list[PolledRecord] = []
        moved = False
        for part, fetched in zip(parts, found, strict=True):
            place = topic_partition(part.topic, part.index)
            if fetched.error is not None:
                moved |= await self._recover(session, fetched, failed)
            elif len(records) < max_records and fetched.data and place in session.assigned:
                run = committed_records(fetched, part.offset, max_records - len(records))
                records += [PolledRecord(place, record) for record in run.records]
                trace = self._host.hosted.trace_of(part.topic, part.index)
                note_read(trace, run.records, session.member_id, session.group_id)
                session.positions[place] = run.next_offset
                moved = True
        return records, moved

    async def _recover(
        self, session: MemberSession, fetched: FetchedPart, failed: set[TopicPartition]
    ) -> bool:
        place = topic_partition(fetched.topic, fetched.index)
        failed.add(place)
        if not isinstance(fetched.error, OffsetOutOfRange):
            return False
        # Retention was faster than the reader, or the topic was made anew.
        before = session.positions.pop(place, None)
        await self._reset(session, place)
        return session.positions.get(place) != before


@contextmanager
def _alone(session: MemberSession) -> Iterator[None]:
    if session.is_polling:
        raise Conflict(f"member {session.member_id!r} is polling already; one poll at a time")
    session.is_polling = True
    try:
        yield
    finally:
        session.is_polling = False


def _parts(session: MemberSession, failed: set[TopicPartition]) -> list[FetchPart]:
    places = sorted(place for place in session.assigned - failed if place in session.positions)
    if not places:
        return []
    first = session.turn % len(places)
    return [
        FetchPart(place.topic, place.partition, session.positions[place], PARTITION_MAX_BYTES)
        for place in places[first:] + places[:first]
    ]
