"""The group coordinator on this broker: groups, their members and their offsets."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from msgspec import structs

from goqueue.broker.coordinator_settings import group_settings
from goqueue.broker.groups.commits import complete, exists, fenced
from goqueue.broker.groups.rebalance_stats import RebalanceStats
from goqueue.broker.groups.rebalance_watch import WatchedGroupMachine
from goqueue.broker.groups.room import GroupRoom
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.runtime.shard import Command, StateShard, timed, untimed
from goqueue.broker.runtime.topic import ShardHost, StateTopic
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.control import Marker, MarkerType
from goqueue.model.errors import InvalidProducerEpoch, TransactionCoordinatorFenced
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    CommittedPartition,
    CompleteTransaction,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResult,
    DeleteGroupResult,
    DescribedGroup,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinGroupResult,
    LeaveGroup,
    LeaveGroupResult,
    ListedGroup,
    ListGroups,
    NamedConsumerGroup,
    OffsetCommit,
    OffsetCommitResult,
    OffsetDelete,
    OffsetDeleteResult,
    OffsetFetch,
    OffsetFetchResult,
    OffsetToCommit,
    SyncGroup,
    SyncGroupResult,
)
from goqueue.model.groups.refusals import GroupRefused, check
from goqueue.model.groups.share_messages import ShareMemberLeft
from goqueue.model.groups.streams_messages import (
    DescribedStreamsGroup,
    StreamsGroupHeartbeat,
    StreamsGroupHeartbeatResult,
)
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.rights import (
    DeletableGroup,
    DescribableGroup,
    DescribableGroups,
    ReadableCommit,
    ReadableGroup,
    ReadableTopic,
    ReadableTransactionCommit,
)
from goqueue.model.topics import OFFSETS_TOPIC, TopicView
from goqueue.pace import Pace
from goqueue.state.groups.coordinator import GroupMachine
from goqueue.state.groups.settings import GroupOverrides
from goqueue.state.groups.topic_regex import InvalidRegex, Search, Sees
from goqueue.state.groups.topics import TopicInfo, Topics
from goqueue.state.machine import Outcome, Ticket

R = TypeVar("R")

# Random part of a member's id: 128 bits cannot be guessed.
MEMBER_ID_BYTES: Final = 16
# Commits that overtake each other on their way here do so within milliseconds, so that this many
# ends of transactions are plenty to remember.
ENDED_TRANSACTIONS_MAX: Final = 10_000


class _Ended(NamedTuple):
    """With which epoch, and on the word of which coordinator."""

    producer_epoch: int
    coordinator_epoch: int


_NEVER_ENDED: Final = _Ended(-1, -(2**31))


class Groups:
    def __init__(self, host: ShardHost, config: BrokerConfig) -> None:
        self._host = host
        self.room = GroupRoom(host, config, lambda: self.state.loaded_shards())
        self._settings = group_settings(config)
        # How the last transactions of producers ended, oldest first.
        self._ended: dict[int, _Ended] = {}
        # Whether rules let somebody see a topic. Set by those who know rules.
        self.sees: Sees = lambda _viewer, _name: True
        # Held by the request whose regular expression is held against the topics: what it finds
        # must be known to those who search again, for the rights it went by may have changed.
        self._matching = asyncio.Lock()
        self._rights_changed = False
        self._topics_changed = asyncio.Event()
        # As the machines know them, and the views that they were made from.
        self._topics: tuple[Mapping[str, TopicView], Topics] = ({}, Topics())
        # Set by those who keep what share groups acknowledge, and the settings of single groups.
        self.share_member_left: Callable[[str, str], None] | None = None
        # The latter deletes its queues, and says whether there were any.
        self.before_delete: Callable[[DeletableGroup], Awaitable[bool]] | None = None
        self.overrides: Callable[[], Mapping[str, GroupOverrides]] = dict
        self.offsets_committed: Callable[[OffsetCommit, OffsetCommitResult], None] | None = None
        # Set by those who keep members: which groups this broker coordinates anew, or no longer.
        self.sessions_ended: Callable[[Callable[[str], bool]], None] | None = None
        self.rebalances = RebalanceStats()
        self.state = StateTopic(
            host,
            OFFSETS_TOPIC,
            partitions=config.offsets_topic_num_partitions,
            make=self._make,
            perform=self._perform,
            loaded=self._catch_up,
        )

    def _make(self, _index: int) -> WatchedGroupMachine:
        machine = WatchedGroupMachine(
            settings=self._settings,
            new_id=lambda: secrets.token_hex(MEMBER_ID_BYTES),
            spare_bytes=self.room.spare_bytes,
            sees=lambda viewer, name: self.sees(viewer, name),
            stats=self.rebalances,
            clock_ms=self._host.clock_ms,
        )
        machine.on_topics_changed(self.topics_now())
        machine.on_group_settings_changed(self.overrides())
        return machine

    def _catch_up(self, shard: StateShard[WatchedGroupMachine]) -> None:
        shard.machine.on_settings_changed(self._settings)
        shard.machine.on_group_settings_changed(self.overrides())
        shard.take(shard.machine.on_topics_changed(self.topics_now()))

    def _perform(self, index: int, effects: Sequence[object]) -> None:
        for effect in effects:
            assert isinstance(effect, ShareMemberLeft), f"machine {index} asked for {effect}"
            if self.share_member_left is not None:
                self.share_member_left(effect.group_id, effect.member_id)

    # --- leadership -----------------------------------------------------------------------

    async def coordinator(self, group: str) -> TopicPartition:
        """Whose leader coordinates the group."""
        await self.state.ensure()
        return self.state.place(self.state.partition_for(group))

    def led(self, place: TopicPartition) -> None:
        # Another one may have led in between.
        self._end_sessions(place)
        self.state.led(place)

    def no_longer_led(self, place: TopicPartition) -> None:
        self._end_sessions(place)
        self.state.no_longer_led(place)

    def followed(self, hosted: HostedPartition) -> None:
        self.state.followed(hosted)

    def _end_sessions(self, place: TopicPartition) -> None:
        if self.sessions_ended is not None:
            self.sessions_ended(lambda group: self.state.partition_for(group) == place.partition)

    # --- membership -----------------------------------------------------------------------

    async def join(
        self, group: ReadableGroup, request: JoinGroup, *, administers_cluster: bool = False
    ) -> JoinGroupResult:
        """`administers_cluster`, here and below: whoever makes a group that is not there does."""
        command = timed(GroupMachine.join, request)
        return await self.ask_new(group, command, administers_cluster=administers_cluster)

    async def sync(self, group: ReadableGroup, request: SyncGroup) -> SyncGroupResult:
        return await self._ask(group, timed(GroupMachine.sync, request))

    async def heartbeat(self, group: ReadableGroup, request: Heartbeat) -> HeartbeatResult:
        return await self._ask(group, timed(GroupMachine.heartbeat, request))

    async def leave(self, group: ReadableGroup, request: LeaveGroup) -> LeaveGroupResult:
        return await self._ask(group, timed(WatchedGroupMachine.leave, request))

    async def consumer_heartbeat(
        self,
        group: ReadableGroup,
        request: ConsumerGroupHeartbeat,
        *,
        administers_cluster: bool = False,
    ) -> ConsumerGroupHeartbeatResult:
        if request.subscribed_regex:
            search = Search(request.subscribed_regex, request.client.viewer)
            await self._match_topics(group, search)
        command = timed(GroupMachine.consumer_heartbeat, request)
        return await self.ask_new(group, command, administers_cluster=administers_cluster)

    async def streams_heartbeat(
        self,
        group: ReadableGroup,
        request: StreamsGroupHeartbeat,
        *,
        administers_cluster: bool = False,
    ) -> StreamsGroupHeartbeatResult:
        command = timed(GroupMachine.streams_heartbeat, request)
        return await self.ask_new(group, command, administers_cluster=administers_cluster)

    async def _match_topics(self, group: str, search: Search) -> None:
        """In slices, one pattern at a time."""
        shard = await self.state.shard_for(group)
        # The machine refuses it with the reason.
        with suppress(InvalidRegex):
            async with self._matching:
                pace = Pace()
                for _ in shard.machine.match_topics(search):
                    if pace.is_over:
                        await pace.rest()

    # --- offsets --------------------------------------------------------------------------

    async def commit(
        self, group: ReadableGroup, request: ReadableCommit, *, administers_cluster: bool = False
    ) -> OffsetCommitResult:
        """Offsets of partitions that are not there are refused: nobody would ever read them."""
        known = self._existing(request.offsets)
        is_whole = len(known) == len(request.offsets)
        passed = request if is_whole else replace(request, offsets=known)
        command = timed(GroupMachine.commit_offsets, passed)
        result = await self.ask_new(group, command, administers_cluster=administers_cluster)
        result = complete(request.offsets, result)
        if self.offsets_committed is not None:
            self.offsets_committed(request, result)
        return result

    async def commit_in_transaction(
        self,
        group: ReadableGroup,
        request: ReadableTransactionCommit,
        *,
        administers_cluster: bool = False,
    ) -> OffsetCommitResult:
        """The caller has made sure that the transaction is open, but it may end meanwhile.

        Its marker would not come again, and the offsets would wait for ever; so a commit of an
        epoch that has ended is refused (KIP-890).
        """

        def command(
            machine: GroupMachine, ticket: Ticket[OffsetCommitResult], now_ms: int
        ) -> Outcome:
            ended = self._ended.get(known.producer_id, _NEVER_ENDED)
            if known.producer_epoch < ended.producer_epoch:
                outcome = Outcome()
                outcome.reply(ticket, fenced(known))
                return outcome
            return machine.commit_offsets_in_transaction(known, ticket=ticket, now_ms=now_ms)

        known = replace(request, offsets=self._existing(request.offsets))
        result = await self.ask_new(group, command, administers_cluster=administers_cluster)
        return complete(request.offsets, result)

    def _existing(self, offsets: Sequence[OffsetToCommit]) -> tuple[OffsetToCommit, ...]:
        topics = self._host.image.topics
        return tuple(each for each in offsets if exists(topics, each.topic, each.partition))

    async def fetch_offsets(
        self, group: DescribableGroup | ReadableGroup, request: OffsetFetch
    ) -> OffsetFetchResult:
        return await self._ask(group, untimed(GroupMachine.fetch_offsets, request))

    async def delete_offsets(
        self, group: DeletableGroup, topics: Mapping[ReadableTopic, Sequence[int]]
    ) -> OffsetDeleteResult:
        """Of partitions that are there; others say that they are not known."""
        known = self._host.image.topics
        found: dict[str, list[int]] = {
            topic: [index for index in indexes if exists(known, topic, index)]
            for topic, indexes in topics.items()
            if topic in known
        }
        request = OffsetDelete(group_id=group, topics=found)
        result = await self._ask(group, untimed(GroupMachine.delete_offsets, request))
        unknown = tuple(
            CommittedPartition(
                topic=topic, partition=index, error=GroupError.UNKNOWN_TOPIC_OR_PARTITION
            )
            for topic, indexes in topics.items()
            for index in indexes
            if not exists(known, topic, index)
        )
        return structs.replace(result, partitions=(*result.partitions, *unknown))

    def offsets_partition(self, group_id: str) -> TopicPartition:
        return topic_partition(OFFSETS_TOPIC, self.state.partition_for(group_id))

    async def end_transaction(
        self, partition: TopicPartition, marker: Marker, producer_id: int, producer_epoch: int
    ) -> None:
        """Offsets that a transaction committed in this partition take effect, or go."""
        request = CompleteTransaction(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=marker.type is MarkerType.COMMIT,
        )
        shard = await self.state.shard(partition.partition)
        self._note_end(producer_id, producer_epoch, marker.coordinator_epoch)
        answer = await shard.execute(untimed(GroupMachine.complete_transaction, request))
        if answer.error is not GroupError.NONE:
            raise InvalidProducerEpoch(
                f"{partition} has offsets of a later epoch of producer {producer_id} than "
                f"{producer_epoch}"
            )

    def _note_end(self, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> None:
        last = self._ended.get(producer_id, _NEVER_ENDED)
        if coordinator_epoch < last.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"marker for producer {producer_id} has coordinator epoch {coordinator_epoch}; "
                f"{last.coordinator_epoch} was seen"
            )
        self._ended.pop(producer_id, None)
        self._ended[producer_id] = _Ended(
            max(last.producer_epoch, producer_epoch), coordinator_epoch
        )
        if len(self._ended) > ENDED_TRANSACTIONS_MAX:
            del self._ended[next(iter(self._ended))]

    # --- administration -------------------------------------------------------------------

    async def list(self, groups: DescribableGroups, request: ListGroups) -> list[ListedGroup]:
        listed: list[ListedGroup] = []
        for shard in await self.state.readable_shards():
            found = await shard.execute(untimed(GroupMachine.list_groups, request))
            listed += (each for each in found if each.group_id in groups)
        return listed

    async def describe(self, group: DescribableGroup) -> DescribedGroup:
        return await self._ask(group, untimed(GroupMachine.describe_group, group))

    async def describe_consumer(self, group: DescribableGroup) -> NamedConsumerGroup:
        command = untimed(GroupMachine.describe_consumer_group, group)
        found = await self._ask(group, command)
        topics = self._host.image.topics_by_id
        seen = {each for member in found.members for each in (*member.assignment, *member.target)}
        return NamedConsumerGroup.of(
            found, {each: topics[each].name for each in seen if each in topics}
        )

    async def describe_streams(self, group: DescribableGroup) -> DescribedStreamsGroup:
        return await self._ask(group, untimed(GroupMachine.describe_streams_group, group))

    async def find(
        self, group: DescribableGroup
    ) -> DescribedGroup | NamedConsumerGroup | DescribedStreamsGroup:
        """A group of a protocol with offsets, or `GroupRefused`."""
        self.check_used()
        consumer = await self.describe_consumer(group)
        if consumer.error is GroupError.NONE:
            return consumer
        streams = await self.describe_streams(group)
        if streams.error is GroupError.NONE:
            return streams
        classic = await self.describe(group)
        check(classic.error)
        return classic

    def check_used(self) -> None:
        """Looking for a group does not make the topic of the groups, if there never was one."""
        if not self.state.exists:
            raise GroupRefused(GroupError.GROUP_ID_NOT_FOUND)

    async def delete(self, group: DeletableGroup) -> DeleteGroupResult:
        """First what it has of queues, then the group: a crash in between can be done again. One
        that reads queues over HTTP has nothing but these."""
        result = DeleteGroupResult(group_id=group, error=GroupError.GROUP_ID_NOT_FOUND)
        shard = await self.state.shard_for(group) if self.state.exists else None
        if shard is not None and shard.machine.has_members(group):
            return structs.replace(result, error=GroupError.NON_EMPTY_GROUP)
        has_queues = self.before_delete is not None and await self.before_delete(group)
        if shard is not None:
            result = await self._ask(group, untimed(GroupMachine.delete_group, group))
        if has_queues and result.error is GroupError.GROUP_ID_NOT_FOUND:
            return structs.replace(result, error=GroupError.NONE)
        return result

    def use_settings(self, config: BrokerConfig) -> None:
        """Members learn of other times with their next heartbeat; what is there already stays."""
        self.room.use_settings(config)
        self._settings = group_settings(config)
        for shard in self.state.loaded_shards():
            shard.machine.on_settings_changed(self._settings)

    def settings_changed(self) -> None:
        """Groups have other settings of their own than before."""
        overrides = self.overrides()
        for shard in self.state.loaded_shards():
            shard.machine.on_group_settings_changed(overrides)

    def topics_changed(self) -> None:
        """Subscriptions may now mean other partitions."""
        for shard in self.state.loaded_shards():
            shard.take(shard.machine.on_topics_changed(self.topics_now()))
        self._topics_changed.set()

    def rights_changed(self) -> None:
        """Members may now see other topics."""
        self._rights_changed = True
        self._topics_changed.set()

    def topics_now(self) -> Topics:
        """There may be thousands, of which one has changed: the others are taken over."""
        before, topics = self._topics
        views = self._host.image.topics
        if views is not before:
            edits: dict[str, TopicInfo | None] = dict.fromkeys(before.keys() - views.keys())
            edits.update(
                (name, _info(view)) for name, view in views.items() if before.get(name) is not view
            )
            topics = topics.edited(edits)
            self._topics = views, topics
        return topics

    async def match_topics_forever(self) -> None:
        """Hold regular expressions against new topics and other rights, in slices."""
        while True:
            await self._topics_changed.wait()
            self._topics_changed.clear()
            pace = Pace()
            async with self._matching:
                by_rights, self._rights_changed = self._rights_changed, False
                for shard in self.state.loaded_shards():
                    for _ in shard.machine.catch_up(by_rights=by_rights):
                        if pace.is_over:
                            await pace.rest()

    async def _ask(self, group: str, command: Command[WatchedGroupMachine, R]) -> R:
        shard = await self.state.shard_for(group)
        return await shard.execute(command)

    async def ask_new(
        self,
        group: ReadableGroup,
        command: Command[WatchedGroupMachine, R],
        *,
        administers_cluster: bool,
    ) -> R:
        """What makes the group where there is none."""
        shard = await self.state.shard_for(group)
        if not shard.machine.has_group(group):
            self.room.check(group, administers_cluster=administers_cluster)
        return await shard.execute(command)


def _info(topic: TopicView) -> TopicInfo:
    return TopicInfo(topic.name, topic.id, len(topic.partitions), topic.is_internal, topic.splits)
