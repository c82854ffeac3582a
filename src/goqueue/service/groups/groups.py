"""Consumer groups: members, offsets, lag, rebalances."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from uuid import UUID

from msgspec.structs import replace

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    NO_GENERATION,
    UNKNOWN_MEMBER_ID,
    CommittedPartition,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResult,
    DeleteGroupResult,
    DescribedGroup,
    FetchedOffset,
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
    SyncGroup,
    SyncGroupResult,
    TxnOffsetCommit,
)
from goqueue.model.groups.overview import GroupListing, GroupOverview, GroupPosition
from goqueue.model.groups.rebalances import AllRebalances, GroupRebalances, RebalanceTally
from goqueue.model.groups.refusals import check
from goqueue.model.names import by_topic, topic_partition
from goqueue.model.rights import ReadableTopic, Resource
from goqueue.pace import in_slices
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited, group_error


class GroupService:
    """Kafka's clients look for the coordinator of a group themselves, and list the groups of each
    broker. What other doors ask for is done at the coordinator, wherever it is."""

    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._groups = node.groups
        self._anywhere = node.groups_anywhere
        self._access = access

    # --- members --------------------------------------------------------------------------

    async def join(self, caller: Caller, request: JoinGroup) -> JoinGroupResult:
        group = self._access.readable_group(caller, request.group_id)
        administers = self._access.administers_cluster(caller)
        return await self._groups.join(group, request, administers_cluster=administers)

    async def sync(self, caller: Caller, request: SyncGroup) -> SyncGroupResult:
        group = self._access.readable_group(caller, request.group_id)
        return await self._groups.sync(group, request)

    async def heartbeat(self, caller: Caller, request: Heartbeat) -> HeartbeatResult:
        group = self._access.readable_group(caller, request.group_id)
        return await self._groups.heartbeat(group, request)

    async def leave(self, caller: Caller, request: LeaveGroup) -> LeaveGroupResult:
        group = self._access.readable_group(caller, request.group_id)
        return await self._groups.leave(group, request)

    async def consumer_heartbeat(
        self, caller: Caller, request: ConsumerGroupHeartbeat
    ) -> ConsumerGroupHeartbeatResult:
        """A regular expression finds what the caller may see, now and whenever rules change."""
        group = self._access.readable_group(caller, request.group_id)
        async for topic in in_slices(request.subscribed_topics or ()):
            self._access.describable_topic(caller, topic)
        if request.subscribed_regex:
            regex = self._access.pattern(caller, request.subscribed_regex)
            request = replace(request, subscribed_regex=regex)
        if self._access.has_rules:
            client = replace(request.client, viewer=self._access.viewer(caller))
            request = replace(request, client=client)
        administers = self._access.administers_cluster(caller)
        return await self._groups.consumer_heartbeat(
            group, request, administers_cluster=administers
        )

    # --- offsets --------------------------------------------------------------------------

    async def commit(self, caller: Caller, request: OffsetCommit) -> OffsetCommitResult:
        """One answer to each offset, in the order given."""
        if request.member_id == UNKNOWN_MEMBER_ID and request.generation_id == NO_GENERATION:
            return await self._set_offsets(caller, request)
        return await self._commit(caller, request)

    # By an administrator, or by a consumer that is no member and does so again and again.
    @audited("group.offsets.set", Resource.GROUP, about="request.group_id", is_gathered=True)
    async def _set_offsets(self, caller: Caller, request: OffsetCommit) -> OffsetCommitResult:
        return await self._commit(caller, request)

    async def _commit(self, caller: Caller, request: OffsetCommit) -> OffsetCommitResult:
        group = self._access.readable_group(caller, request.group_id)
        commit, refused = self._access.readable_commit(caller, request)
        administers = self._access.administers_cluster(caller)
        result = await self._groups.commit(group, commit, administers_cluster=administers)
        return with_refused(request, result, refused)

    async def fetch_offsets(self, caller: Caller, request: OffsetFetch) -> OffsetFetchResult:
        """Topics that the caller may not see are refused if it names them, else left out."""
        group = self._access.describable_group(caller, request.group_id)
        refused: tuple[FetchedOffset, ...] = ()
        if request.topics is not None:
            hidden = [name for name in request.topics if not self._access.sees_topic(caller, name)]
            refused = tuple(
                FetchedOffset(
                    topic=name, partition=index, error=GroupError.TOPIC_AUTHORIZATION_FAILED
                )
                for name in hidden
                for index in request.topics[name]
            )
            seen = {name: found for name, found in request.topics.items() if name not in hidden}
            request = replace(request, topics=seen)
        result = await self._groups.fetch_offsets(group, request)
        if request.topics is None:
            found = (each for each in result.offsets if self._access.sees_topic(caller, each.topic))
            return replace(result, offsets=tuple(found))
        return replace(result, offsets=result.offsets + refused) if refused else result

    def topic_id(self, caller: Caller, topic: str) -> UUID | None:
        """For answers that name topics by id; None if it is gone, though a group remembers it."""
        view = self._node.image.topics.get(self._access.describable_topic(caller, topic))
        return None if view is None else view.id

    @audited("group.offsets.delete", Resource.GROUP, about="request.group_id", failure=group_error)
    async def delete_offsets(self, caller: Caller, request: OffsetDelete) -> OffsetDeleteResult:
        group = self._access.deletable_group(caller, request.group_id)
        readable = self._access.readable_topics(caller)
        topics: dict[ReadableTopic, list[int]] = {}
        refused: list[CommittedPartition] = []
        async for name, indexes in in_slices(request.topics.items()):
            if name in readable:
                topics[self._access.readable_topic(caller, name)] = list(indexes)
                continue
            error = GroupError.TOPIC_AUTHORIZATION_FAILED
            refused += (
                CommittedPartition(topic=name, partition=index, error=error) for index in indexes
            )
        result = await self._groups.delete_offsets(group, topics)
        return replace(result, partitions=(*result.partitions, *refused))

    # --- groups ---------------------------------------------------------------------------

    async def list(self, caller: Caller, request: ListGroups) -> list[ListedGroup]:
        """Those that this broker coordinates."""
        return await self._groups.list(self._access.describable_groups(caller), request)

    async def list_all(self, caller: Caller, request: ListGroups) -> GroupListing:
        """Those of all brokers, by name."""
        visible = self._access.describable_groups(caller)
        told = await self._anywhere.list_all(request)
        found = {
            each.group_id: each
            for groups in told.answers.values()
            for each in groups
            if each.group_id in visible
        }
        return GroupListing([found[name] for name in sorted(found)], told.unanswered)

    async def describe(self, caller: Caller, group: str) -> DescribedGroup:
        """A classic group."""
        return await self._groups.describe(self._access.describable_group(caller, group))

    async def describe_consumer(self, caller: Caller, group: str) -> NamedConsumerGroup:
        """Refused as a whole when its members have topics that the caller may not see."""
        right = self._access.describable_group(caller, group)
        found = await self._groups.describe_consumer(right)
        subscribed = (name for member in found.members for name in member.subscribed_topics)
        self._access.check_sees_all(caller, {*found.topic_names.values(), *subscribed})
        return found

    async def find_consumer(self, caller: Caller, group: str) -> NamedConsumerGroup:
        """As `describe_consumer`, without the topics that the caller may not see; raises if there
        is no such group.
        """
        right = self._access.describable_group(caller, group)
        found = await self._anywhere.describe_consumer(right)
        check(found.error, found.error_message)
        sees = partial(self._access.sees_topic, caller)
        return replace(
            found,
            topic_names={each: name for each, name in found.topic_names.items() if sees(name)},
            members=tuple(
                replace(member, subscribed_topics=tuple(filter(sees, member.subscribed_topics)))
                for member in found.members
            ),
        )

    @audited("group.delete", Resource.GROUP, about="group", failure=group_error)
    async def delete(self, caller: Caller, group: str) -> DeleteGroupResult:
        return await self._groups.delete(self._access.deletable_group(caller, group))

    @audited("group.delete", Resource.GROUP, about="group")
    async def find_and_delete(self, caller: Caller, group: str) -> None:
        """As `delete`; raises what is in the way."""
        check((await self._anywhere.delete(self._access.deletable_group(caller, group))).error)

    async def overview(self, caller: Caller, group: str) -> GroupOverview:
        """A group of either protocol, without the topics that the caller may not see; raises if
        there is none.
        """
        found = await self._anywhere.overview(self._access.describable_group(caller, group))
        sees = partial(self._access.sees_topic, caller)
        members = (
            dataclasses.replace(
                member,
                topics=tuple(filter(sees, member.topics)),
                held=tuple(place for place in member.held if sees(place.topic)),
            )
            for member in found.members
        )
        return dataclasses.replace(found, members=tuple(members))

    async def positions(
        self, caller: Caller, seen: GroupOverview, topic: str | None = None
    ) -> Sequence[GroupPosition]:
        """Where the group is in all partitions that have an offset or an owner, or in those of
        one topic; in order."""
        group = self._access.describable_group(caller, seen.group_id)
        fetched = await self._anywhere.fetch_offsets(group, OffsetFetch(group_id=group))
        check(fetched.error)
        offsets = {
            topic_partition(each.topic, each.partition): each
            for each in fetched.offsets
            if self._access.sees_topic(caller, each.topic)
        }
        places = [
            place for place in offsets.keys() | seen.owners.keys() if topic in (None, place.topic)
        ]
        ends = await self._node.log_anywhere.ends_of(
            {
                self._access.describable_topic(caller, name): indexes
                for name, indexes in by_topic(places).items()
            }
        )
        return [
            GroupPosition.of(place, offsets.get(place), ends.get(place), seen.owners.get(place))
            for place in sorted(places)
        ]

    # --- rebalances -----------------------------------------------------------------------

    async def rebalances(self, caller: Caller, group: str) -> GroupRebalances:
        return await self._anywhere.rebalances(self._access.describable_group(caller, group))

    async def all_rebalances(self, caller: Caller) -> AllRebalances:
        self._access.describable_cluster(caller)
        visible = self._access.describable_groups(caller)
        told = await self._anywhere.all_rebalances()
        tally = RebalanceTally()
        in_progress: set[str] = set()
        for found in told.answers.values():
            tally = tally.plus(found.tally)
            in_progress.update(group for group in found.in_progress if group in visible)
        return AllRebalances(len(in_progress), tally, told.unanswered)


def with_refused(
    request: OffsetCommit | TxnOffsetCommit, result: OffsetCommitResult, refused: frozenset[str]
) -> OffsetCommitResult:
    """Answers to all offsets of the request, in its order."""
    if not refused:
        return result
    answers = iter(result.partitions)
    return OffsetCommitResult(
        partitions=tuple(
            CommittedPartition(
                topic=each.topic,
                partition=each.partition,
                error=GroupError.TOPIC_AUTHORIZATION_FAILED,
            )
            if each.topic in refused
            else next(answers)
            for each in request.offsets
        )
    )
