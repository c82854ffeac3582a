"""Topics read and written by offset: produce, fetch, look up offsets, delete records.

Batches are produced and fetched at the leader of their partition, which Kafka's clients find
themselves; pages of records and counts are asked of it from any broker.

Produce and fetch are not coroutines of their own: what they return is the broker's, so that the
doorway costs next to nothing where it is used most.
"""

from collections.abc import Collection, Coroutine, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from goqueue.broker.node import Node
from goqueue.broker.partitions.ready_list import ReadyList
from goqueue.broker.quotas.metering import Metering
from goqueue.model.batch import Buffer
from goqueue.model.caller import Caller
from goqueue.model.errors import AccessDenied
from goqueue.model.log import (
    CountRequest,
    EpochEnd,
    FetchedPart,
    FetchPart,
    Isolation,
    ListedOffset,
    PageRequest,
    Produced,
    ProducerView,
    RecordCount,
    RecordPage,
)
from goqueue.model.rights import Resource
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited

# What a door keeps of a reader that comes again: see `LogService.fetch_ready`.
ReadyParts: TypeAlias = ReadyList


class Reading:
    """A fetch may go on while the caller may read all of it."""

    __slots__ = ("_access", "_caller", "_changes", "_parts", "waiters")

    def __init__(self, access: Access, caller: Caller, parts: Collection[FetchPart]) -> None:
        self._access = access
        self._caller = caller
        self._parts = parts
        waits = access.waits
        # Of rules, when it was allowed.
        self._changes = waits.changes
        self.waiters = waits.fetching

    @property
    def is_over(self) -> bool:
        changes = self._access.waits.changes
        if changes == self._changes:
            return False
        self._changes = changes
        readable = self._access.readable_topics(self._caller)
        return not all(part.topic in readable for part in self._parts)

    def left(self, parts: list[FetchedPart]) -> list[FetchedPart]:
        """Rights may have been taken away while it waited, or read from a disk."""
        return [self._checked_again(part) for part in parts]

    def _checked_again(self, part: FetchedPart) -> FetchedPart:
        try:
            self._access.readable_topic(self._caller, part.topic)
        except AccessDenied as error:
            return FetchedPart(part.topic, part.index, error)
        return part


class LogService:
    def __init__(self, node: Node, access: Access) -> None:
        self._log = node.log
        self._anywhere = node.log_anywhere
        self._access = access
        self._draining = node.draining
        self._limits = node.quotas.limits
        self._metering = Metering(node)

    def produce(
        self,
        caller: Caller,
        topic: str,
        index: int,
        records: Buffer,
        *,
        acks: int,
        timeout_ms: int,
        transactional_id: str | None = None,
        bumps_epoch: bool = False,
        connection: Hashable = None,
    ) -> Coroutine[Any, Any, Produced]:
        """Append a batch, then wait as `acks` asks. `connection` is that of a client that chose the
        partition by what it knows of the topic; it is told where that may be out of date."""
        access = self._access
        writable = access.writable_topic(caller, topic)
        if caller.principal.tenant:
            self._limits.check_storage(caller)
        # Who wants no answer could not be told to send it again.
        if connection is not None and acks:
            self._draining.check(topic, index, connection, records)
        return self._log.produce(
            writable,
            index,
            records,
            acks=acks,
            timeout_ms=timeout_ms,
            transactional_id=(
                None
                if transactional_id is None
                else access.writable_transactional_id(caller, transactional_id)
            ),
            bumps_epoch=bumps_epoch,
        )

    def fetch(
        self,
        caller: Caller,
        parts: Sequence[FetchPart],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: Isolation,
        rack: str = "",
    ) -> Coroutine[Any, Any, list[FetchedPart]]:
        """Batches as they are stored, answered in the order asked for. `rack` is where the reader
        stands."""
        readable, refused = self._access.readable_parts(caller, parts)
        fetching = self._log.fetch(
            readable,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation=isolation,
            consumer=caller.client_id,
            rack=rack,
            until=Reading(self._access, caller, parts) if self._access.has_rules else None,
        )
        return _with_refused(fetching, refused) if refused else fetching

    def fetch_ready(
        self,
        caller: Caller,
        ready: ReadyParts,
        parts: Mapping[Hashable, FetchPart],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: Isolation,
        looks_at_all: bool,
        rack: str = "",
    ) -> Coroutine[Any, Any, dict[Hashable, FetchedPart]]:
        """As `fetch`, of those parts of a session that may have something to tell: all of them,
        once rules have changed. Each is asked for again whenever it is looked at. One that waits
        when a right goes is ended, and its session told of it when it asks again."""
        access = self._access
        changes = access.waits.changes
        if ready.rule_changes != changes:
            ready.rule_changes = changes
            for key, part in parts.items():
                # Without a name, it is not known yet whether the caller may know it.
                if part.topic:
                    ready.add(key)
        return self._log.fetch_ready(
            ready,
            parts,
            partial(access.readable_part, caller),
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation=isolation,
            looks_at_all=looks_at_all,
            consumer=caller.client_id,
            rack=rack,
            until=Reading(access, caller, parts.values()) if access.has_rules else None,
        )

    async def read_page(
        self, caller: Caller, topic: str, index: int, wanted: PageRequest
    ) -> RecordPage:
        """Single records, without what was not committed."""
        right = self._access.readable_topic(caller, topic)
        self._metering.reading(caller)
        reading = self._anywhere.read_page(right, index, wanted, consumer=caller.door.value)
        if wanted.max_wait_ms and self._access.has_rules:
            check = partial(self._access.readable_topic, caller, topic)
            async with self._access.waits.while_allowed(check):
                page = await reading
        else:
            page = await reading
        self._metering.have_read(caller, page.records)
        return page

    async def count_records(
        self, caller: Caller, topic: str, index: int, wanted: CountRequest
    ) -> RecordCount:
        """How many records lie between two offsets, without reading them."""
        right = self._access.readable_topic(caller, topic)
        return await self._anywhere.count_records(right, index, wanted, asker=caller.address)

    async def list_offset(
        self,
        caller: Caller,
        topic: str,
        index: int,
        timestamp: int,
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        leader_epoch: int = -1,
    ) -> ListedOffset:
        """The offset at a time, or at either end of a partition."""
        return await self._log.list_offset(
            self._access.describable_topic(caller, topic),
            index,
            timestamp,
            isolation=isolation,
            leader_epoch=leader_epoch,
        )

    def offset_for_leader_epoch(
        self, caller: Caller, topic: str, index: int, epoch: int, *, current_epoch: int
    ) -> EpochEnd:
        """Where the records of a leader's epoch end."""
        return self._log.offset_for_leader_epoch(
            self._access.describable_topic(caller, topic), index, epoch, current_epoch=current_epoch
        )

    @audited("records.delete", Resource.TOPIC, about="topic", is_gathered=True)
    async def delete_records(
        self, caller: Caller, topic: str, index: int, before_offset: int
    ) -> int:
        """Move the log start; returns the new one."""
        right = self._access.deletable_topic(caller, topic)
        return await self._log.delete_records(right, index, before_offset)

    def producers(self, caller: Caller, topic: str, index: int) -> list[ProducerView]:
        """Who writes to a partition, and which transactions are open there."""
        return self._log.producers(self._access.readable_topic(caller, topic), index)


async def _with_refused(
    fetching: Coroutine[Any, Any, list[FetchedPart]], refused: dict[int, FetchedPart]
) -> list[FetchedPart]:
    """The answers of the readable parts, with the refused ones where the request had them."""
    answers = await fetching
    for position in sorted(refused):
        answers.insert(position, refused[position])
    return answers
