"""Queues as SQS sees them: every topic is one. Found, made, configured, purged and deleted."""

from collections.abc import Callable, Mapping
from functools import partial

from goqueue.broker.node import Node
from goqueue.broker.quotas.limited_topics import LimitedTopics
from goqueue.model.caller import Caller
from goqueue.model.errors import PolicyViolation
from goqueue.model.queues.attributes import (
    POLICY_MAX_BYTES,
    check_length,
    parse_redrive_policy,
)
from goqueue.model.queues.policies import (
    Permission,
    check_permission,
    with_statement,
    without_statement,
)
from goqueue.model.queues.sqs_queue import SQS_GROUP, QueueCounts, SqsQueue
from goqueue.model.rights import Resource
from goqueue.service.queues.policies import QueuePolicies
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited


class SqsQueueService:
    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._catalogue = node.sqs_catalogue
        self._fifo = node.fifo
        self._news = node.news
        self._access = access
        self._policies = QueuePolicies(node, access)
        self._limited = LimitedTopics(node, access.administers_cluster)

    # --- finding --------------------------------------------------------------------------

    def find(self, caller: Caller, name: str) -> SqsQueue:
        return self._catalogue.find(self._access.describable_topic(caller, name))

    def for_sending(self, caller: Caller, name: str) -> SqsQueue:
        return self._catalogue.find(self._access.writable_topic(caller, name))

    def for_receiving(self, caller: Caller, name: str) -> SqsQueue:
        self._access.readable_group(caller, SQS_GROUP)
        return self._catalogue.find(self._access.readable_topic(caller, name))

    def names(self, caller: Caller) -> list[str]:
        return [name for name in self._catalogue.names() if self._access.sees_topic(caller, name)]

    def sources_of(self, caller: Caller, name: str) -> list[str]:
        """The queues whose dead letters go to this one."""
        self.find(caller, name)
        return [
            source
            for source in self._catalogue.sources_of(name)
            if self._access.sees_topic(caller, source)
        ]

    async def counts(self, caller: Caller, name: str) -> QueueCounts:
        return await self._catalogue.counts(self._access.describable_topic(caller, name))

    # --- changing -------------------------------------------------------------------------

    # Applications make their queues at every start.
    @audited("queue.create", Resource.TOPIC, about="name", is_gathered=True)
    async def create(
        self,
        caller: Caller,
        name: str,
        attributes: Mapping[str, str],
        tags: Mapping[str, str],
    ) -> SqsQueue:
        topic = self._access.creatable_topic(caller, name)
        self._check_dead_letters(caller, attributes)
        policy = attributes.get("Policy")
        if policy:
            self._policies.check(caller, name, policy)
        adopted = None
        if self._catalogue.is_made_elsewhere(topic):
            # Its settings will be those of the queue.
            adopted = self._access.configurable_topic(caller, name)
        is_new, partitions = topic not in self._node.image.topics, self._node.config.num_partitions
        if is_new:
            self._limited.check_new(caller, name, partitions)
        create = partial(self._catalogue.create, topic, attributes, tags, adopted=adopted)
        try:
            queue = await create(administers_cluster=False)
        except PolicyViolation:
            # Asked only now: who makes queues needs no right to alter the cluster.
            if not self._access.administers_cluster(caller):
                raise
            queue = await create(administers_cluster=True)
        if policy:
            await self._policies.apply(caller, name, "", policy)
        await self._news.spread()
        if is_new:
            self._limited.count(caller, partitions)
        return queue

    @audited("queue.attributes", Resource.TOPIC, about="name", detail=("attributes",))
    async def set_attributes(
        self, caller: Caller, name: str, attributes: Mapping[str, str]
    ) -> None:
        topic = self._access.configurable_topic(caller, name)
        self._check_dead_letters(caller, attributes)
        policy = attributes.get("Policy")
        if policy is None:
            await self._catalogue.set_attributes(topic, attributes)
        else:
            self._policies.check(caller, name, policy)
            old = self._catalogue.find(topic).attributes.get("Policy", "")
            await self._catalogue.set_attributes(topic, attributes)
            await self._policies.apply(caller, name, old, policy)
        await self._news.spread()

    def _check_dead_letters(self, caller: Caller, attributes: Mapping[str, str]) -> None:
        """The broker will write dead letters by itself: whoever says where must be allowed to."""
        text = attributes.get("RedrivePolicy", "")
        check_length("RedrivePolicy", text, POLICY_MAX_BYTES)
        policy = parse_redrive_policy(text)
        if policy is not None:
            self._access.writable_topic(caller, policy.target)

    async def add_permission(
        self, caller: Caller, name: str, arn: str, permission: Permission
    ) -> None:
        def add(text: str) -> str:
            check_permission(permission)
            return with_statement(text, arn, permission)

        await self._change_policy(caller, name, add)

    async def remove_permission(self, caller: Caller, name: str, arn: str, label: str) -> None:
        await self._change_policy(caller, name, lambda text: without_statement(text, arn, label))

    @audited("queue.policy", Resource.TOPIC, about="name")
    async def _change_policy(self, caller: Caller, name: str, change: Callable[[str], str]) -> None:
        topic = self._access.configurable_topic(caller, name)
        self._policies.check(caller, name)
        old = new = ""

        def changed(text: str) -> str:
            nonlocal old, new
            old, new = text, change(text)
            self._policies.check(caller, name, new)
            return new

        await self._catalogue.change_policy(topic, changed)
        await self._policies.apply(caller, name, old, new)
        await self._news.spread()

    @audited("queue.tags", Resource.TOPIC, about="name", detail=("tags",))
    async def set_tags(self, caller: Caller, name: str, tags: Mapping[str, str | None]) -> None:
        """Add or replace tags; None removes one."""
        await self._catalogue.set_tags(self._access.configurable_topic(caller, name), tags)
        await self._news.spread()

    @audited("queue.purge", Resource.TOPIC, about="name")
    async def purge(self, caller: Caller, name: str) -> None:
        await self._fifo.purge(self._access.deletable_topic(caller, name))

    @audited("queue.delete", Resource.TOPIC, about="name")
    async def delete(self, caller: Caller, name: str) -> None:
        topic = self._access.deletable_topic(caller, name)
        self._limited.check_deletion(caller)
        partitions = len(self._catalogue.find(topic).topic.partitions)
        await self._catalogue.delete(topic)
        self._limited.count(caller, partitions)
        await self._news.spread()
