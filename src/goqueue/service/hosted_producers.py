"""Producers that live in the broker, for clients that have none of their own."""

from collections.abc import Sequence
from dataclasses import replace

from goqueue.broker.groups.commits import check_partitions
from goqueue.broker.hosted_clients.producers.coordinated import WritableProducer
from goqueue.broker.node import Node
from goqueue.broker.quotas.metering import Metering
from goqueue.model.caller import Caller
from goqueue.model.groups.messages import NO_GENERATION, OffsetCommitResult, TxnOffsetCommit
from goqueue.model.log import Published
from goqueue.model.records import NewRecord
from goqueue.model.rights import WritableTopic
from goqueue.model.transactions.messages import (
    InitProducerId,
    ProducerIdAnswer,
    ProducerIdentity,
    TransactionDescription,
)
from goqueue.service.security.access import Access
from goqueue.service.topic_making import TopicMaking


class HostedProducerService:
    """What is refused is raised."""

    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._producers = node.producers
        self._access = access
        self._metering = Metering(node)
        self._making = TopicMaking(node, access)

    async def init(self, caller: Caller, request: InitProducerId) -> ProducerIdAnswer:
        """A producer id and epoch. With a transactional id, earlier producers are fenced and what
        they left open is aborted."""
        transactional_id = request.transactional_id
        if transactional_id is None:
            right = self._access.idempotent_writer(caller)
            return await self._producers.init_idempotent(right, request)
        writable = self._access.writable_transactional_id(caller, transactional_id)
        return await self._producers.init(
            writable, request, administers_cluster=self._access.administers_cluster(caller)
        )

    async def describe(self, caller: Caller, identity: ProducerIdentity) -> TransactionDescription:
        """The transaction of this producer, or why it is not its own any more."""
        return await self._producers.describe(self._writable(caller, identity))

    async def begin(self, caller: Caller, identity: ProducerIdentity) -> TransactionDescription:
        return await self._producers.begin(self._writable(caller, identity))

    async def add_partition(
        self, caller: Caller, identity: ProducerIdentity, topic: str, index: int
    ) -> TransactionDescription:
        producer = self._writable(caller, identity)
        writable = self._access.writable_topic(caller, topic)
        return await self._producers.add_partition(producer, writable, index)

    async def publish(
        self,
        caller: Caller,
        identity: ProducerIdentity,
        topic: str,
        records: Sequence[NewRecord],
        partitions: Sequence[int | None],
        *,
        sequence: int | None,
    ) -> list[Published]:
        """Append within the open transaction, and answer in the order given."""
        producer = self._writable(caller, identity)
        writable = await self._made(caller, topic, records)
        return await self._producers.publish(
            producer, writable, records, partitions, sequence=sequence
        )

    async def publish_idempotent(
        self,
        caller: Caller,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        records: Sequence[NewRecord],
        partitions: Sequence[int | None],
        *,
        sequence: int | None,
    ) -> list[Published]:
        """Append outside of transactions, each batch once."""
        writable = await self._made(caller, topic, records)
        return await self._producers.publish_idempotent(
            producer_id, producer_epoch, writable, records, partitions, sequence=sequence
        )

    async def commit_offsets(
        self, caller: Caller, identity: ProducerIdentity, request: TxnOffsetCommit
    ) -> OffsetCommitResult:
        """Offsets of a group that count when the transaction commits. A member that lives here,
        too, is known by its id alone."""
        producer = self._writable(caller, identity)
        topics = self._node.image.topics
        rights = self._access.member_rights(caller, request.group_id, topics)
        # All or none: the request is refused before any of it is done.
        for topic in {offset.topic for offset in request.offsets}:
            self._access.readable_topic(caller, topic)
        if request.member_id:
            member = await self._node.members.view(rights, request.member_id)
            request = replace(request, group_instance_id=member.instance_id)
            if request.generation_id == NO_GENERATION:
                request = replace(request, generation_id=member.epoch)
        commit, _ = self._access.readable_transaction_commit(caller, request)
        check_partitions(topics, commit.offsets)
        return await self._producers.commit_offsets(
            producer, rights.group, commit, administers_cluster=rights.administers_cluster
        )

    async def end(
        self, caller: Caller, identity: ProducerIdentity, *, commit: bool
    ) -> TransactionDescription:
        """Commit or abort; tells the epoch to go on with, once every partition knows."""
        return await self._producers.end(self._writable(caller, identity), commit=commit)

    def _writable(self, caller: Caller, identity: ProducerIdentity) -> WritableProducer:
        right = self._access.writable_transactional_id(caller, identity.transactional_id)
        return WritableProducer(right, identity.producer_id, identity.producer_epoch)

    async def _made(
        self, caller: Caller, topic: str, records: Sequence[NewRecord]
    ) -> WritableTopic:
        """The topic, for these records; if it is not there, it is made where that is allowed."""
        writable = self._access.writable_topic(caller, topic)
        self._metering.publishing(caller, records)
        if topic not in self._node.image.topics:
            await self._making.ensure(caller, topic)
        return writable
