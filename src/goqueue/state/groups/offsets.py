"""Commands on offsets: commit (also in transactions), fetch, delete, and the expiry of old ones.

An offset committed in a transaction is kept as pending until the marker of the transaction comes,
which makes it a committed offset or drops it. Of two commits of one partition the later one stands,
in whatever order their transactions end.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    CommittedPartition,
    CompleteTransaction,
    CompleteTransactionResult,
    FetchedOffset,
    OffsetCommit,
    OffsetCommitResult,
    OffsetDelete,
    OffsetDeleteResult,
    OffsetFetch,
    OffsetFetchResult,
    OffsetToCommit,
    TxnOffsetCommit,
)
from goqueue.state.groups.classic_group import ClassicGroup
from goqueue.state.groups.classic_rebalance import ClassicRebalance
from goqueue.state.groups.consumer_group import ConsumerGroup
from goqueue.state.groups.gates import Gates
from goqueue.state.groups.group import Committer, Group
from goqueue.state.groups.offset_table import OffsetTable
from goqueue.state.groups.records import (
    CommittedOffset,
    OffsetKey,
    PendingOffset,
    PendingOffsetKey,
    RecordKey,
    RecordValue,
    record,
    tombstone,
)
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.registry import Registry, Timer
from goqueue.state.groups.room import OBJECT_BYTES
from goqueue.state.groups.share_group import ShareGroup
from goqueue.state.groups.states import ClassicState
from goqueue.state.groups.streams.group import StreamsGroup
from goqueue.state.machine import Outcome, Ticket

# Offsets looked at in one go by the expiry: some milliseconds of the event loop.
EXPIRY_CHUNK: Final = 20_000
# Between two such goes, for other work to get its turn.
EXPIRY_PAUSE_MS: Final = 50

# Under which key, in which form, an offset is recorded.
Entry = Callable[[OffsetToCommit, CommittedOffset], tuple[RecordKey, RecordValue]]


class Offsets:
    def __init__(
        self, registry: Registry, table: OffsetTable, classic: ClassicRebalance, gates: Gates
    ) -> None:
        self._registry = registry
        self._gates = gates
        self._table = table
        self._classic = classic
        # Groups the running expiry has yet to look at.
        self._to_expire: list[str] = []

    def known_group(self, group_id: str) -> Group | None:
        """Offsets without members make an empty classic group that has no record of its own."""
        group = self._registry.groups.get(group_id)
        if group is None and group_id in self._table.by_group:
            return ClassicGroup(group_id)
        return group

    # --- commit ---------------------------------------------------------------------------

    def commit(
        self, request: OffsetCommit, ticket: Ticket[OffsetCommitResult], now_ms: int, out: Outcome
    ) -> None:
        try:
            self._check_commit(request)
        except Refused as refused:
            out.reply(ticket, _refused(request.offsets, refused.error))
            return
        group = self._registry.groups.get(request.group_id)
        if isinstance(group, ClassicGroup) and group.state in (
            ClassicState.STABLE,
            ClassicState.PREPARING_REBALANCE,
        ):
            # In the classic protocol a commit is as good as a heartbeat.
            self._classic.touch(group, request.member_id, now_ms)
        expire_ms = -1 if request.retention_ms < 0 else now_ms + request.retention_ms

        def entry(
            wanted: OffsetToCommit, committed: CommittedOffset
        ) -> tuple[RecordKey, RecordValue]:
            return OffsetKey(request.group_id, wanted.topic, wanted.partition), committed

        self._commit(request, entry, expire_ms, ticket, now_ms, out)

    def commit_in_transaction(
        self,
        request: TxnOffsetCommit,
        ticket: Ticket[OffsetCommitResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        try:
            self._check_txn_commit(request)
        except Refused as refused:
            out.reply(ticket, _refused(request.offsets, refused.error))
            return

        def entry(
            wanted: OffsetToCommit, committed: CommittedOffset
        ) -> tuple[RecordKey, RecordValue]:
            key = PendingOffsetKey(
                request.producer_id, request.group_id, wanted.topic, wanted.partition
            )
            return key, PendingOffset(request.producer_epoch, committed)

        self._commit(request, entry, -1, ticket, now_ms, out)

    def _commit(
        self,
        request: OffsetCommit | TxnOffsetCommit,
        entry: Entry,
        expire_ms: int,
        ticket: Ticket[OffsetCommitResult],
        now_ms: int,
        out: Outcome,
    ) -> None:
        sequence = self._table.sequence + 1
        results = []
        spare_bytes: int | None = None
        taken: dict[tuple[str, int], CommittedOffset] = {}
        for wanted in request.offsets:
            error = self._check_offset(wanted)
            if error is GroupError.NONE and self._takes_more(request, wanted):
                # Asked for only now: who commits on and on takes no more than before.
                if spare_bytes is None:
                    spare_bytes = self._registry.spare_bytes(request.group_id)
                spare_bytes -= OBJECT_BYTES + len(wanted.topic) + len(wanted.metadata)
                if spare_bytes < 0:
                    error = GroupError.GROUP_MAX_SIZE_REACHED
            results.append(
                CommittedPartition(topic=wanted.topic, partition=wanted.partition, error=error)
            )
            if error is GroupError.NONE:
                committed = CommittedOffset(
                    offset=wanted.offset,
                    leader_epoch=wanted.leader_epoch,
                    metadata=wanted.metadata,
                    commit_ms=now_ms,
                    sequence=sequence,
                    expire_ms=expire_ms,
                )
                out.records.append(record(*entry(wanted, committed)))
                if isinstance(request, OffsetCommit):
                    self._gates.committed(
                        request.group_id, wanted.topic, wanted.partition, wanted.offset, now_ms
                    )
                    taken[wanted.topic, wanted.partition] = committed
        out.records += self._gates.committed_seeds(request.group_id, taken)
        out.reply(ticket, OffsetCommitResult(partitions=tuple(results)))

    def _takes_more(self, request: OffsetCommit | TxnOffsetCommit, wanted: OffsetToCommit) -> bool:
        """Whether the offset is new here, has a longer note, or stands beside a pending one."""
        where = (request.group_id, wanted.topic, wanted.partition)
        before = self._table.get(*where)
        if before is None or len(before.metadata) < len(wanted.metadata):
            return True
        return isinstance(request, TxnOffsetCommit) and self._table.is_pending(*where)

    def _check_offset(self, wanted: OffsetToCommit) -> GroupError:
        if wanted.offset < 0 or wanted.partition < 0:
            return GroupError.INVALID_REQUEST
        if len(wanted.metadata) > self._registry.settings.offset_metadata_max_length:
            return GroupError.OFFSET_METADATA_TOO_LARGE
        return GroupError.NONE

    def _check_commit(self, request: OffsetCommit) -> None:
        group = self._registry.groups.get(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                raise Refused(
                    GroupError.GROUP_ID_NOT_FOUND
                    if request.knows_member_epochs
                    else GroupError.ILLEGAL_GENERATION
                )
            return
        try:
            group.check_offset_commit(_committer(request, transactional=False))
        except Refused as refused:
            if refused.error is GroupError.STALE_MEMBER_EPOCH and not request.knows_member_epochs:
                raise Refused(GroupError.UNSUPPORTED_VERSION) from None
            raise
        if isinstance(group, ConsumerGroup) and not request.knows_member_epochs:
            member = group.members.get(request.member_id)
            if member is not None and not member.uses_classic_protocol:
                raise Refused(GroupError.UNSUPPORTED_VERSION)
        if (
            isinstance(group, StreamsGroup)
            and request.member_id in group.members
            and not request.knows_member_epochs
        ):
            raise Refused(GroupError.UNSUPPORTED_VERSION)

    def _check_txn_commit(self, request: TxnOffsetCommit) -> None:
        group = self._registry.groups.get(request.group_id)
        if group is not None:
            try:
                group.check_offset_commit(_committer(request, transactional=True))
            except Refused as refused:
                if refused.error is GroupError.STALE_MEMBER_EPOCH:
                    raise Refused(GroupError.ILLEGAL_GENERATION) from None
                raise
        elif request.generation_id >= 0:
            raise Refused(GroupError.ILLEGAL_GENERATION)
        if request.producer_epoch < self._pending_epoch(request.producer_id):
            raise Refused(GroupError.INVALID_PRODUCER_EPOCH)

    def _pending_epoch(self, producer_id: int) -> int:
        pending = self._table.pending.get(producer_id, {})
        return max((p.producer_epoch for p in pending.values()), default=-1)

    def complete_transaction(
        self, request: CompleteTransaction, ticket: Ticket[CompleteTransactionResult], out: Outcome
    ) -> None:
        """A marker came. One of an older epoch than the pending offsets is not for them."""
        if request.producer_epoch < self._pending_epoch(request.producer_id):
            error = GroupError.INVALID_PRODUCER_EPOCH
            out.reply(ticket, CompleteTransactionResult(error=error))
            return
        taken: dict[str, dict[tuple[str, int], CommittedOffset]] = defaultdict(dict)
        for where, pending in self._table.pending.get(request.producer_id, {}).items():
            current = self._table.get(*where)
            if request.committed and (
                current is None or current.sequence < pending.committed.sequence
            ):
                out.records.append(record(OffsetKey(*where), pending.committed))
                # As of when they were handed in: those of a transaction open gates together.
                self._gates.committed(*where, pending.committed.offset, pending.committed.commit_ms)
                taken[where.group][where.topic, where.partition] = pending.committed
            out.records.append(tombstone(PendingOffsetKey(request.producer_id, *where)))
        for group_id, places in taken.items():
            out.records += self._gates.committed_seeds(group_id, places)
        out.reply(ticket, CompleteTransactionResult())

    # --- fetch ----------------------------------------------------------------------------

    def fetch(self, request: OffsetFetch, ticket: Ticket[OffsetFetchResult], out: Outcome) -> None:
        group = self.known_group(request.group_id)
        if group is not None:
            try:
                group.check_offset_fetch(
                    member_id=request.member_id, member_epoch=request.member_epoch
                )
            except Refused as refused:
                out.reply(ticket, OffsetFetchResult(group_id=request.group_id, error=refused.error))
                return
        wanted: Mapping[str, Iterable[int]]
        if request.topics is None:
            wanted = self._table.by_group.get(request.group_id, {})
        else:
            wanted = request.topics
        found = tuple(
            self._fetched(request, topic, partition)
            for topic, partitions in wanted.items()
            for partition in partitions
        )
        out.reply(ticket, OffsetFetchResult(group_id=request.group_id, offsets=found))

    def _fetched(self, request: OffsetFetch, topic: str, partition: int) -> FetchedOffset:
        if request.require_stable and self._table.is_pending(request.group_id, topic, partition):
            error = GroupError.UNSTABLE_OFFSET_COMMIT
            return FetchedOffset(topic=topic, partition=partition, error=error)
        committed = self._table.get(request.group_id, topic, partition)
        if committed is None:
            return FetchedOffset(topic=topic, partition=partition)
        return FetchedOffset(
            topic=topic,
            partition=partition,
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )

    # --- delete and expire ----------------------------------------------------------------

    def delete(
        self, request: OffsetDelete, ticket: Ticket[OffsetDeleteResult], out: Outcome
    ) -> None:
        group = self.known_group(request.group_id)
        try:
            if group is None:
                raise Refused(GroupError.GROUP_ID_NOT_FOUND)
            group.check_offset_delete()
        except Refused as refused:
            out.reply(ticket, OffsetDeleteResult(error=refused.error))
            return
        results = []
        for topic, partitions in request.topics.items():
            subscribed = group.is_subscribed_to(topic)
            error = GroupError.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else GroupError.NONE
            for partition in dict.fromkeys(partitions):
                results.append(CommittedPartition(topic=topic, partition=partition, error=error))
                if not subscribed:
                    out.records += self._table.tombstones(request.group_id, topic, partition)
        out.reply(ticket, OffsetDeleteResult(partitions=tuple(results)))

    def start_expiry(self, now_ms: int) -> None:
        check_ms = self._registry.settings.offsets_retention_check_ms
        self._registry.deadlines.set(Timer("expire-offsets"), now_ms + check_ms)

    def expire(self, now_ms: int, out: Outcome) -> None:
        """Expire offsets of one chunk of groups, and empty groups that have none left."""
        if not self._to_expire:
            self._to_expire = sorted(self._registry.groups.keys() | self._table.by_group.keys())
        seen = 0
        while self._to_expire and seen < EXPIRY_CHUNK:
            group_id = self._to_expire.pop()
            seen += 1 + sum(map(len, self._table.by_group.get(group_id, {}).values()))
            self._expire_group(group_id, now_ms, out)
        if self._to_expire:
            self._registry.deadlines.set(Timer("expire-offsets"), now_ms + EXPIRY_PAUSE_MS)
        else:
            self.start_expiry(now_ms)

    def _expire_group(self, group_id: str, now_ms: int, out: Outcome) -> None:
        group = self.known_group(group_id)
        if group is None:
            return
        some_left = self._table.has_pending(group_id)
        for topic, partitions in self._table.by_group.get(group_id, {}).items():
            subscribed = group.is_subscribed_to(topic)
            for partition, committed in partitions.items():
                if (
                    subscribed
                    or self._table.is_pending(group_id, topic, partition)
                    or not self._is_expired(group, committed, now_ms)
                ):
                    some_left = True
                else:
                    out.records.append(tombstone(OffsetKey(group_id, topic, partition)))
        if not some_left and group.is_empty and not _expects_members(group):
            out.records += group.tombstones()

    def _is_expired(self, group: Group, committed: CommittedOffset, now_ms: int) -> bool:
        if committed.expire_ms >= 0:
            return now_ms >= committed.expire_ms
        since_ms = group.retention_starts_ms(committed)
        kept_ms = self._registry.settings.offsets_retention_ms
        return since_ms is not None and now_ms - since_ms >= kept_ms


def _expects_members(group: Group) -> bool:
    """A share group without members still knows what is acknowledged: it stays."""
    return isinstance(group, ShareGroup) or (
        isinstance(group, ClassicGroup) and bool(group.pending_members)
    )


def _committer(request: OffsetCommit | TxnOffsetCommit, *, transactional: bool) -> Committer:
    return Committer(
        request.member_id, request.group_instance_id, request.generation_id, transactional
    )


def _refused(offsets: Sequence[OffsetToCommit], error: GroupError) -> OffsetCommitResult:
    return OffsetCommitResult(
        partitions=tuple(
            CommittedPartition(topic=o.topic, partition=o.partition, error=error) for o in offsets
        )
    )
