"""The group coordinator on this broker: groups, their members and their offsets."""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from goqueue.broker.groups.rebalance_stats import RebalanceStats
from goqueue.broker.groups.rebalance_watch import WatchedGroupMachine
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.shard import Command, StateShard, timed, untimed
from goqueue.broker.runtime.topic import Host, StateTopic
from goqueue.model.errors import InvalidProducerEpoch
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    CommittedPartition,
    CompleteTransaction,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResult,
    DeleteGroupResult,
    DescribedConsumerGroup,
    DescribedGroup,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinGroupResult,
    LeaveGroup,
    LeaveGroupResult,
    ListedGroup,
    ListGroups,
    OffsetCommit,
    OffsetCommitResult,
    OffsetDelete,
    OffsetDeleteResult,
    OffsetFetch,
    OffsetFetchResult,
    SyncGroup,
    SyncGroupResult,
    TxnOffsetCommit,
)
from goqueue.model.groups.share_messages import ShareMemberLeft
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.state.groups.coordinator import GroupMachine
from goqueue.state.groups.settings import GroupOverrides, GroupSettings
from goqueue.state.groups.topics import TopicInfo, Topics
from goqueue.state.machine import Outcome, Ticket
from goqueue.state.metadata_image import MetadataImage

R = TypeVar("R")

OFFSETS_TOPIC: Final = "__consumer_offsets"
# Random part of a member's id: 128 bits cannot be guessed.
MEMBER_ID_BYTES: Final = 16
# Commits that overtake each other on their way here do so within milliseconds, so that this many
# ends of transactions are plenty to remember.
ENDED_TRANSACTIONS_MAX: Final = 10_000


class Groups:
    def __init__(self, host: Host, *, partitions: int, settings: GroupSettings) -> None:
        self._host = host
        self._settings = settings
        # Producers and the epochs with which their last transactions ended, oldest first.
        self._ended: dict[int, int] = {}
        # Set by those who keep what share groups acknowledge, and what groups have of settings.
        self.share_member_left: Callable[[str, str], None] | None = None
        self.before_delete: Callable[[str], Awaitable[None]] | None = None
        self.overrides: Callable[[], Mapping[str, GroupOverrides]] = dict
        self.offsets_committed: Callable[[OffsetCommit, OffsetCommitResult], None] | None = None
        self.rebalances = RebalanceStats()
        self.state = StateTopic(
            host,
            OFFSETS_TOPIC,
            partitions=partitions,
            make=self._make,
            perform=self._perform,
            loaded=self._catch_up,
        )

    def _make(self, _index: int, _partition: Partition) -> WatchedGroupMachine:
        machine = WatchedGroupMachine(
            settings=self._settings,
            new_id=lambda: secrets.token_hex(MEMBER_ID_BYTES),
            stats=self.rebalances,
            clock_ms=self._host.clock_ms,
        )
        machine.on_topics_changed(topics_of(self._host.image))
        machine.on_group_settings_changed(self.overrides())
        return machine

    def _catch_up(self, shard: StateShard[WatchedGroupMachine]) -> None:
        shard.machine.on_group_settings_changed(self.overrides())
        shard.take(shard.machine.on_topics_changed(topics_of(self._host.image)))

    def _perform(self, index: int, effects: Sequence[object]) -> None:
        for effect in effects:
            assert isinstance(effect, ShareMemberLeft), f"machine {index} asked for {effect}"
            if self.share_member_left is not None:
                self.share_member_left(effect.group_id, effect.member_id)

    # --- membership -----------------------------------------------------------------------

    async def join(self, request: JoinGroup) -> JoinGroupResult:
        return await self._ask(request.group_id, timed(GroupMachine.join, request))

    async def sync(self, request: SyncGroup) -> SyncGroupResult:
        return await self._ask(request.group_id, timed(GroupMachine.sync, request))

    async def heartbeat(self, request: Heartbeat) -> HeartbeatResult:
        return await self._ask(request.group_id, timed(GroupMachine.heartbeat, request))

    async def leave(self, request: LeaveGroup) -> LeaveGroupResult:
        return await self._ask(request.group_id, timed(WatchedGroupMachine.leave, request))

    async def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeat
    ) -> ConsumerGroupHeartbeatResult:
        return await self._ask(request.group_id, timed(GroupMachine.consumer_heartbeat, request))

    # --- offsets --------------------------------------------------------------------------

    async def commit(self, request: OffsetCommit) -> OffsetCommitResult:
        result = await self._ask(request.group_id, timed(GroupMachine.commit_offsets, request))
        if self.offsets_committed is not None:
            self.offsets_committed(request, result)
        return result

    async def commit_in_transaction(self, request: TxnOffsetCommit) -> OffsetCommitResult:
        """The caller has made sure that the transaction is open, but it may end meanwhile.

        Its marker would not come again, and the offsets would wait for ever; so a commit of an
        epoch that has ended is refused (KIP-890).
        """

        def command(
            machine: GroupMachine, ticket: Ticket[OffsetCommitResult], now_ms: int
        ) -> Outcome:
            if request.producer_epoch < self._ended.get(request.producer_id, -1):
                outcome = Outcome()
                outcome.reply(ticket, _fenced(request))
                return outcome
            return machine.commit_offsets_in_transaction(request, ticket=ticket, now_ms=now_ms)

        return await self._ask(request.group_id, command)

    async def fetch_offsets(self, request: OffsetFetch) -> OffsetFetchResult:
        return await self._ask(request.group_id, untimed(GroupMachine.fetch_offsets, request))

    async def delete_offsets(self, request: OffsetDelete) -> OffsetDeleteResult:
        return await self._ask(request.group_id, untimed(GroupMachine.delete_offsets, request))

    def offsets_partition(self, group_id: str) -> TopicPartition:
        return topic_partition(OFFSETS_TOPIC, self.state.partition_for(group_id))

    async def end_transaction(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, *, commit: bool
    ) -> None:
        """Offsets that a transaction committed in this partition take effect, or go."""
        request = CompleteTransaction(
            producer_id=producer_id, producer_epoch=producer_epoch, committed=commit
        )
        self._host.partition(*partition)
        shard = await self.state.shard(partition.partition)
        self._note_end(producer_id, producer_epoch)
        answer = await shard.execute(untimed(GroupMachine.complete_transaction, request))
        if answer.error is not GroupError.NONE:
            raise InvalidProducerEpoch(
                f"{partition} has offsets of a later epoch of producer {producer_id} than "
                f"{producer_epoch}"
            )

    def _note_end(self, producer_id: int, producer_epoch: int) -> None:
        last = self._ended.pop(producer_id, -1)
        self._ended[producer_id] = max(last, producer_epoch)
        if len(self._ended) > ENDED_TRANSACTIONS_MAX:
            del self._ended[next(iter(self._ended))]

    # --- administration -------------------------------------------------------------------

    async def list(self, request: ListGroups) -> list[ListedGroup]:
        groups: list[ListedGroup] = []
        for shard in await self.state.all_shards():
            found = await shard.execute(untimed(GroupMachine.list_groups, request))
            groups += found
        return groups

    async def describe(self, group_id: str) -> DescribedGroup:
        return await self._ask(group_id, untimed(GroupMachine.describe_group, group_id))

    async def describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        return await self._ask(group_id, untimed(GroupMachine.describe_consumer_group, group_id))

    async def delete(self, group_id: str) -> DeleteGroupResult:
        if self.before_delete is not None:
            await self.before_delete(group_id)
        return await self._ask(group_id, untimed(GroupMachine.delete_group, group_id))

    def settings_changed(self) -> None:
        """Groups have other settings of their own than before."""
        overrides = self.overrides()
        for shard in self.state.loaded_shards():
            shard.machine.on_group_settings_changed(overrides)

    def topics_changed(self, image: MetadataImage) -> None:
        """Subscriptions may now mean other partitions."""
        shards = self.state.loaded_shards()
        if not shards:
            return
        topics = topics_of(image)
        for shard in shards:
            shard.take(shard.machine.on_topics_changed(topics))

    async def _ask(self, group_id: str, command: Command[WatchedGroupMachine, R]) -> R:
        shard = await self.state.shard_for(group_id)
        return await shard.execute(command)


def _fenced(request: TxnOffsetCommit) -> OffsetCommitResult:
    return OffsetCommitResult(
        partitions=tuple(
            CommittedPartition(
                topic=offset.topic,
                partition=offset.partition,
                error=GroupError.INVALID_PRODUCER_EPOCH,
            )
            for offset in request.offsets
        )
    )


def topics_of(image: MetadataImage) -> Topics:
    return Topics(
        TopicInfo(topic.name, topic.id, len(topic.partitions), topic.is_internal)
        for topic in image.topics.values()
    )
