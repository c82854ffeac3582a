"""The group coordinator on this broker: groups, their members and their offsets."""

import secrets
from collections.abc import Callable, Sequence
from typing import Final, cast

from goqueue.broker.partition import Partition
from goqueue.broker.state_topic import Host, StateTopic
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.state.groups.coordinator import GroupMachine
from goqueue.state.groups.messages import (
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
from goqueue.state.groups.settings import GroupSettings
from goqueue.state.groups.topics import TopicInfo, Topics
from goqueue.state.machine import Outcome
from goqueue.state.metadata_image import MetadataImage

OFFSETS_TOPIC: Final = "__consumer_offsets"
# Random part of a member's id: 128 bits cannot be guessed.
MEMBER_ID_BYTES: Final = 16

Command = Callable[[GroupMachine, int, int], Outcome]


class Groups:
    def __init__(self, host: Host, *, partitions: int, settings: GroupSettings) -> None:
        self._host = host
        self._settings = settings
        self.state = StateTopic(
            host, OFFSETS_TOPIC, partitions=partitions, make=self._make, perform=self._perform
        )

    def _make(self, _index: int, _partition: Partition) -> GroupMachine:
        machine = GroupMachine(
            settings=self._settings, new_id=lambda: secrets.token_hex(MEMBER_ID_BYTES)
        )
        machine.on_topics_changed(_topics(self._host.image))
        return machine

    def _perform(self, index: int, effects: Sequence[object]) -> None:
        raise AssertionError(f"group machine {index} asked for {effects}")

    # --- membership -----------------------------------------------------------------------

    async def join(self, request: JoinGroup) -> JoinGroupResult:
        answer = await self._ask(request.group_id, _command(GroupMachine.join, request))
        return cast(JoinGroupResult, answer)

    async def sync(self, request: SyncGroup) -> SyncGroupResult:
        answer = await self._ask(request.group_id, _command(GroupMachine.sync, request))
        return cast(SyncGroupResult, answer)

    async def heartbeat(self, request: Heartbeat) -> HeartbeatResult:
        answer = await self._ask(request.group_id, _command(GroupMachine.heartbeat, request))
        return cast(HeartbeatResult, answer)

    async def leave(self, request: LeaveGroup) -> LeaveGroupResult:
        answer = await self._ask(request.group_id, _command(GroupMachine.leave, request))
        return cast(LeaveGroupResult, answer)

    async def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeat
    ) -> ConsumerGroupHeartbeatResult:
        command = _command(GroupMachine.consumer_heartbeat, request)
        return cast(ConsumerGroupHeartbeatResult, await self._ask(request.group_id, command))

    # --- offsets --------------------------------------------------------------------------

    async def commit(self, request: OffsetCommit) -> OffsetCommitResult:
        answer = await self._ask(request.group_id, _command(GroupMachine.commit_offsets, request))
        return cast(OffsetCommitResult, answer)

    async def commit_in_transaction(self, request: TxnOffsetCommit) -> OffsetCommitResult:
        command = _command(GroupMachine.commit_offsets_in_transaction, request)
        return cast(OffsetCommitResult, await self._ask(request.group_id, command))

    async def fetch_offsets(self, request: OffsetFetch) -> OffsetFetchResult:
        answer = await self._ask(request.group_id, _untimed(GroupMachine.fetch_offsets, request))
        return cast(OffsetFetchResult, answer)

    async def delete_offsets(self, request: OffsetDelete) -> OffsetDeleteResult:
        answer = await self._ask(request.group_id, _untimed(GroupMachine.delete_offsets, request))
        return cast(OffsetDeleteResult, answer)

    def offsets_partition(self, group_id: str) -> TopicPartition:
        return topic_partition(OFFSETS_TOPIC, self.state.partition_for(group_id))

    async def end_transaction(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, *, commit: bool
    ) -> None:
        """Offsets that a transaction committed in this partition take effect, or go."""
        request = CompleteTransaction(
            producer_id=producer_id, producer_epoch=producer_epoch, committed=commit
        )
        shard = await self.state.shard(partition.partition)
        await shard.execute(_untimed(GroupMachine.complete_transaction, request))

    # --- administration -------------------------------------------------------------------

    async def list(self, request: ListGroups) -> list[ListedGroup]:
        groups: list[ListedGroup] = []
        for shard in await self.state.all_shards():
            answer = await shard.execute(_untimed(GroupMachine.list_groups, request))
            groups += cast(Sequence[ListedGroup], answer)
        return groups

    async def describe(self, group_id: str) -> DescribedGroup:
        answer = await self._ask(group_id, _untimed(GroupMachine.describe_group, group_id))
        return cast(DescribedGroup, answer)

    async def describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        answer = await self._ask(group_id, _untimed(GroupMachine.describe_consumer_group, group_id))
        return cast(DescribedConsumerGroup, answer)

    async def delete(self, group_id: str) -> DeleteGroupResult:
        answer = await self._ask(group_id, _untimed(GroupMachine.delete_group, group_id))
        return cast(DeleteGroupResult, answer)

    def topics_changed(self, image: MetadataImage) -> None:
        """Subscriptions may now mean other partitions."""
        shards = self.state.loaded_shards()
        if not shards:
            return
        topics = _topics(image)
        for shard in shards:
            shard.take(shard.machine.on_topics_changed(topics))

    async def _ask(self, group_id: str, command: Command) -> object:
        shard = await self.state.shard_for(group_id)
        return await shard.execute(command)


def _command(method: Callable[..., Outcome], request: object) -> Command:
    return lambda machine, ticket, now_ms: method(machine, request, ticket=ticket, now_ms=now_ms)


def _untimed(method: Callable[..., Outcome], request: object) -> Command:
    """A command to which the time does not matter."""
    return lambda machine, ticket, _: method(machine, request, ticket=ticket)


def _topics(image: MetadataImage) -> Topics:
    return Topics(
        TopicInfo(topic.name, topic.id, len(topic.partitions), topic.is_internal)
        for topic in image.topics.values()
    )
