"""Topics read as queues: receive, settle, dead letters."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from goqueue.broker.node import Node
from goqueue.broker.queues.redrive import list_dead_letters, redrive
from goqueue.broker.quotas.metering import Metering
from goqueue.model.caller import Caller
from goqueue.model.calls import Unanswered
from goqueue.model.queues.dead_letters import (
    Redriven,
    StoredDeadLetter,
    dead_letter_topic,
)
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.messages import DescribedQueue, QueueDescription
from goqueue.model.queues.own_groups import OWN_GROUPS
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import Settled, Settlement
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.tenants import inner_name
from goqueue.pace import in_slices
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited

# At the same time, of those that describe thousands of queues: a description takes a kilobyte, and
# all that are begun are held until they are done.
DESCRIBING_MAX: Final = 2
# Topics with no more partitions do not stand in that line.
NARROW_PARTITIONS: Final = 100


class DescribedQueues(NamedTuple):
    """All that answered brokers lead."""

    queues: list[DescribedQueue]
    unanswered: list[Unanswered]


class QueueService:
    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._queues = node.queues
        self._access = access
        self._metering = Metering(node)
        self._describing = asyncio.Semaphore(DESCRIBING_MAX)

    # --- messages -------------------------------------------------------------------------

    async def receive(
        self, caller: Caller, group: str, topic: str, request: Receive
    ) -> list[Delivery]:
        """Lease messages of any partition; waits as long as the request says."""
        reader = self._access.readable_group(caller, group)
        readable = self._access.readable_topic(caller, topic)
        self._metering.receiving(caller)
        if self._access.administers_cluster(caller):
            request = replace(request, administers_cluster=True)
        receiving = self._queues.receive(reader, readable, request)
        if self._access.has_rules:

            def check() -> None:
                self._access.readable_group(caller, group)
                self._access.readable_topic(caller, topic)

            async with self._access.waits.while_allowed(check):
                deliveries = await receiving
        else:
            deliveries = await receiving
        self._metering.have_received(caller, [each.record for each in deliveries])
        return deliveries

    def give_back(self, group: str, found: Sequence[Delivery]) -> None:
        """Whoever received these has gone, or its log-in has ended, before it was answered. Soon,
        and without counting as deliveries. It was allowed to receive them; giving back is."""
        self._queues.give_back(group, found)

    async def settle(
        self,
        caller: Caller,
        group: str,
        wanted: Sequence[Settlement],
        *,
        outlives_lease: bool = False,
    ) -> list[Settled]:
        """Say what became of messages; one answer for each receipt, in the order given.

        `outlives_lease`: a message's last receipt settles it also after its time, as in SQS.
        """
        reader = self._access.readable_group(caller, group)
        names = {each.receipt.topic for each in wanted}
        topics = {name: self._access.readable_topic(caller, name) for name in sorted(names)}
        return await self._queues.settle(reader, topics, wanted, outlives_lease=outlives_lease)

    # --- queues ---------------------------------------------------------------------------

    async def describe(self, caller: Caller, group: str, topic: str) -> list[QueueDescription]:
        """One per partition; those that were never opened say UNKNOWN_QUEUE."""
        describable = self._access.describable_group(caller, group)
        seen = self._access.describable_topic(caller, topic)
        if len(self._node.topic(seen).partitions) <= NARROW_PARTITIONS:
            return await self._queues.describe(describable, seen)
        async with self._describing:
            return await self._queues.describe(describable, seen)

    async def describe_all(self, caller: Caller) -> DescribedQueues:
        """Every queue whose group and topic the caller may see."""
        async with self._describing:
            gathered = await self._queues.describe_all()
            # While a partition changes its leader, both may tell of it.
            by_key = {
                each.queue.queue: each for all_of in gathered.answers.values() for each in all_of
            }
            seen = [
                each
                async for each in in_slices(by_key.values())
                if self._sees(caller, each.queue.queue.group, each.topic)
            ]
        seen.sort(key=lambda each: (each.queue.queue.group, each.topic, each.queue.queue.partition))
        return DescribedQueues(seen, gathered.unanswered)

    def _sees(self, caller: Caller, group: str, topic: str) -> bool:
        if group in OWN_GROUPS:
            # The queues of all tenants have these; each knows its own ones by their name.
            group = inner_name(caller.principal.tenant, group)
        sees_group = self._access.allows(caller, Resource.GROUP, group, Verb.DESCRIBE)
        return sees_group and self._access.sees_topic(caller, topic)

    # --- dead letters ---------------------------------------------------------------------

    async def dead_letters(
        self, caller: Caller, topic: str, *, limit: int
    ) -> list[StoredDeadLetter]:
        """The oldest dead letters of a topic that were not sent back."""
        readable = self._access.readable_topic(caller, topic)
        letters = self._access.readable_topic(caller, dead_letter_topic(topic))
        self._node.topic(readable)
        return await list_dead_letters(self._node, self._queues, letters, limit=limit)

    @audited("dead_letters.redrive", Resource.TOPIC, about="topic", detail=("limit",))
    async def redrive(self, caller: Caller, topic: str, *, limit: int | None = None) -> Redriven:
        """Send a topic's dead letters back to where each came from.

        Those stay that name a topic which does not send its dead letters here, which the caller
        may not write to, or whose schemas they do not fit.
        """
        writable = self._access.writable_topic(caller, topic)
        letters = self._access.readable_topic(caller, dead_letter_topic(topic))
        self._node.topic(writable)
        return await redrive(
            self._node,
            self._queues,
            writable,
            letters,
            origins=self._node.sqs_catalogue.origins_of(letters),
            may_write=partial(self._access.writable_topic, caller),
            limit=limit,
            administers_cluster=self._access.administers_cluster(caller),
        )
