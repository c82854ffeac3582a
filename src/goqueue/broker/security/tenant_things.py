"""What a tenant has, counted; and removed with the tenant."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.broker.own_grants import OwnWork, own_delete, own_delete_group
from goqueue.broker.security.tenant_schemas import remove_schemas
from goqueue.model.calls import Method
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.refusals import check
from goqueue.model.rights import AlterableCluster, DescribableCluster
from goqueue.model.schemas.tenant_subjects import scope_of_tenant
from goqueue.model.security.rules import RuleFilter
from goqueue.model.security.tenants import SEPARATOR, TenantUsage, tenant_of_topic
from goqueue.model.topics import TopicView
from goqueue.model.transactions.messages import ListTransactions
from goqueue.pace import in_slices

if TYPE_CHECKING:
    from goqueue.broker.node import Node


class FindGroups(msgspec.Struct, frozen=True):
    tenant: str


GROUPS: Final = Method("tenants.groups", FindGroups, list[str], is_repeatable=True)


class TenantThings:
    def __init__(self, node: "Node") -> None:
        self._node = node
        node.calls.serve(GROUPS, self._groups_here)

    async def usage(self, _cluster: DescribableCluster, name: str) -> TenantUsage:
        topics = list(self._topics(name))
        sizes = await self._node.log_anywhere.sizes()
        names = {topic.name for topic in topics}
        return TenantUsage(
            users=await self._users(name),
            topics=len(topics),
            partitions=sum(len(topic.partitions) for topic in topics),
            bytes=sum(
                size
                for answer in sizes.answers.values()
                for topic, size in answer.items()
                if topic in names
            ),
            groups=len(await self._groups(name)),
            transactional_ids=await self._transactional_ids(name),
            subjects=await self._subjects(name),
        )

    async def remove(self, cluster: AlterableCluster, name: str) -> None:
        """Users first, so that nobody makes more, and rules: a later tenant of the name must not
        begin with them. What transactional ids did is forgotten when they expire."""
        node, work = self._node, OwnWork.TENANT_REMOVAL
        await node.security.users.delete_of_tenant(cluster, name)
        await node.security.rule_book.remove(cluster, [RuleFilter(tenant=name)])
        for topic in list(self._topics(name)):
            await node.topics.delete(own_delete(topic.name, work))
        for group in await self._groups(name):
            deleted = await node.groups_anywhere.delete(own_delete_group(group, work))
            # One that only read queues may have gone with its topics.
            if deleted.error is not GroupError.GROUP_ID_NOT_FOUND:
                check(deleted.error)
        await remove_schemas(node.schemas, name)
        await node.news.spread()

    async def _users(self, name: str) -> int:
        users = in_slices(self._node.security.image.users.values())
        return sum([1 async for user in users if user.tenant == name])

    def _topics(self, name: str) -> Iterator[TopicView]:
        topics = self._node.image.topics
        return (topic for topic in topics.values() if tenant_of_topic(topic.name) == name)

    async def _groups(self, name: str) -> list[str]:
        """All that its limit counts, at any broker."""
        told = await self._node.calls.gather(GROUPS, FindGroups(name))
        return sorted({group for groups in told.answers.values() for group in groups})

    async def _groups_here(self, request: FindGroups) -> list[str]:
        """Once all that this broker leads is read."""
        await self._node.groups.state.readable_shards()
        await self._node.queues.registry.state.readable_shards()
        return list(self._node.quotas.limits.groups(request.tenant))

    async def _transactional_ids(self, name: str) -> int:
        told = await self._node.transactions_anywhere.list_all(ListTransactions())
        return sum(
            each.transactional_id.startswith(f"{name}{SEPARATOR}")
            for answer in told.answers.values()
            for each in answer.transactions
        )

    async def _subjects(self, name: str) -> int:
        """Also those that are deleted and remembered."""
        scope = scope_of_tenant(name)
        async with self._node.schemas.catalogues.shown() as catalogue:
            return sum(each.startswith(scope) for each in catalogue.subjects(deleted=True))
