"""Rights to groups, and to what their members read and commit."""

from collections.abc import Iterable
from dataclasses import replace

from goqueue.model.caller import Caller
from goqueue.model.groups.messages import OffsetCommit, OffsetToCommit, TxnOffsetCommit
from goqueue.model.rights import (
    CLUSTER_NAME,
    ConfigurableGroup,
    DeletableGroup,
    DescribableGroup,
    DescribableGroups,
    InspectableGroup,
    MemberRights,
    ReadableCommit,
    ReadableGroup,
    ReadableTransactionCommit,
    Resource,
    Verb,
)
from goqueue.service.security.own_groups import check_not_own
from goqueue.service.security.rights.deciding import Deciding
from goqueue.service.sorted_requests import SortedCommit, SortedTransactionCommit


class GroupRights(Deciding):
    def readable_group(self, caller: Caller, name: str) -> ReadableGroup:
        self._check(caller, Resource.GROUP, name, Verb.READ)
        check_not_own(caller, name)
        return ReadableGroup(name)

    def describable_group(self, caller: Caller, name: str) -> DescribableGroup:
        self._check(caller, Resource.GROUP, name, Verb.DESCRIBE)
        return DescribableGroup(name)

    def deletable_group(self, caller: Caller, name: str) -> DeletableGroup:
        self._check(caller, Resource.GROUP, name, Verb.DELETE)
        check_not_own(caller, name)
        return DeletableGroup(name)

    def inspectable_group(self, caller: Caller, name: str) -> InspectableGroup:
        self._check(caller, Resource.GROUP, name, Verb.DESCRIBE_CONFIGS)
        return InspectableGroup(name)

    def configurable_group(self, caller: Caller, name: str) -> ConfigurableGroup:
        self._check(caller, Resource.GROUP, name, Verb.ALTER_CONFIGS)
        check_not_own(caller, name)
        return ConfigurableGroup(name)

    def describable_groups(self, caller: Caller) -> DescribableGroups:
        """For lists; the right to see the cluster is enough for all of the caller's tenant."""
        if self._rule_allows(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.DESCRIBE):
            return DescribableGroups(lambda name: self.owns(caller, Resource.GROUP, name))
        return DescribableGroups(self._test(caller, Resource.GROUP, Verb.DESCRIBE))

    def member_rights(self, caller: Caller, group: str, topics: Iterable[str]) -> MemberRights:
        """`topics` are all that the member may come upon."""
        may_read = self._test(caller, Resource.TOPIC, Verb.READ)
        named = None if self._rules is None and not caller.principal.tenant else topics
        return MemberRights(
            self.readable_group(caller, group),
            may_read,
            named,
            administers_cluster=self.administers_cluster(caller),
        )

    def readable_commit(self, caller: Caller, request: OffsetCommit) -> SortedCommit:
        refused = self._unreadable(caller, request.offsets)
        if refused:
            kept = tuple(each for each in request.offsets if each.topic not in refused)
            request = replace(request, offsets=kept)
        return SortedCommit(ReadableCommit(request), refused)

    def readable_transaction_commit(
        self, caller: Caller, request: TxnOffsetCommit
    ) -> SortedTransactionCommit:
        refused = self._unreadable(caller, request.offsets)
        if refused:
            kept = tuple(each for each in request.offsets if each.topic not in refused)
            request = replace(request, offsets=kept)
        return SortedTransactionCommit(ReadableTransactionCommit(request), refused)

    def _unreadable(self, caller: Caller, offsets: Iterable[OffsetToCommit]) -> frozenset[str]:
        if self._has_every_right(caller):
            return frozenset()
        may_read = self._test(caller, Resource.TOPIC, Verb.READ)
        refused = frozenset(each.topic for each in offsets if not may_read(each.topic))
        for name in refused:
            self._tell_refused(caller, Resource.TOPIC, name, Verb.READ)
        return refused
