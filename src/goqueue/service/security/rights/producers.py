"""Rights of producers: to transactional ids, and to what transactions write."""

from goqueue.model.caller import Caller
from goqueue.model.names import TopicPartition
from goqueue.model.rights import (
    CLUSTER_NAME,
    DescribableTransactionalId,
    DescribableTransactionalIds,
    IdempotentWriter,
    Resource,
    Verb,
    WritablePartitions,
    WritableTransactionalId,
)
from goqueue.model.transactions.messages import AddPartitions
from goqueue.service.security.rights.deciding import Deciding


class ProducerRights(Deciding):
    def writable_transactional_id(self, caller: Caller, name: str) -> WritableTransactionalId:
        self._check(caller, Resource.TRANSACTIONAL_ID, name, Verb.WRITE)
        return WritableTransactionalId(name)

    def describable_transactional_id(self, caller: Caller, name: str) -> DescribableTransactionalId:
        self._check(caller, Resource.TRANSACTIONAL_ID, name, Verb.DESCRIBE)
        return DescribableTransactionalId(name)

    def describable_transactional_ids(self, caller: Caller) -> DescribableTransactionalIds:
        """For lists."""
        return DescribableTransactionalIds(
            self._test(caller, Resource.TRANSACTIONAL_ID, Verb.DESCRIBE)
        )

    def writable_partitions(
        self, caller: Caller, request: AddPartitions
    ) -> WritablePartitions | frozenset[TopicPartition]:
        """The request, or the partitions for which it must be refused: they are added together."""
        refused = frozenset(
            place
            for place in request.partitions
            if not self.allows(caller, Resource.TOPIC, place.topic, Verb.WRITE)
        )
        for name in {place.topic for place in refused}:
            self._tell_refused(caller, Resource.TOPIC, name, Verb.WRITE)
        return refused or WritablePartitions(request)

    def idempotent_writer(self, caller: Caller) -> IdempotentWriter:
        self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.IDEMPOTENT_WRITE)
        return IdempotentWriter(CLUSTER_NAME)
