"""Topics and partitions that clients have made and deleted, held to quotas and limits (KIP-599)."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from goqueue.model.caller import Caller
from goqueue.model.errors import PolicyViolation
from goqueue.model.rights import AlterableTopic, CreatableTopic, DeletableTopic
from goqueue.model.security.quotas import QuotaKind
from goqueue.model.topics import NewTopic, TopicView

if TYPE_CHECKING:
    from goqueue.broker.node import Node


class LimitedTopics:
    """`is_strict`: a caller beyond its quota is refused (`QuotaExceeded`). Else what it asks for is
    done and counted, and whoever answers it lets it wait."""

    def __init__(self, node: "Node", administers_cluster: Callable[[Caller], bool]) -> None:
        self._node = node
        self._administers_cluster = administers_cluster
        self._topics = node.topics
        self._quotas = node.quotas

    async def create(
        self,
        caller: Caller,
        topic: CreatableTopic,
        new: NewTopic,
        *,
        validate_only: bool = False,
        is_strict: bool = True,
    ) -> TopicView:
        partitions = (
            len(new.assignments or ()) or new.partitions or self._node.config.num_partitions
        )
        self.check_new(caller, topic, partitions, is_strict=is_strict)
        made = await self._topics.create(topic, new, validate_only=validate_only)
        if not validate_only:
            self.count(caller, len(made.partitions))
        return made

    async def ensure(self, caller: Caller, topic: CreatableTopic) -> TopicView:
        is_new = topic not in self._node.image.topics
        if is_new:
            self.check_new(caller, topic, self._node.config.num_partitions)
        made = await self._topics.ensure(topic)
        if is_new:
            self.count(caller, len(made.partitions))
        return made

    async def delete(
        self, caller: Caller, topic: DeletableTopic, *, is_strict: bool = True
    ) -> TopicView:
        if is_strict:
            self.check_deletion(caller)
        deleted = await self._topics.delete(topic)
        self.count(caller, len(deleted.partitions))
        return deleted

    async def create_partitions(
        self,
        caller: Caller,
        topic: AlterableTopic,
        total: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        is_ordered: bool | None = None,
        validate_only: bool = False,
        is_strict: bool = True,
    ) -> None:
        known = self._node.image.topics.get(topic)
        added = 0 if known is None else max(0, total - len(known.partitions))
        if is_strict:
            self._quotas.admit(caller, QuotaKind.MUTATIONS)
        self._quotas.limits.check_topics(caller, added, topics=0)
        self._check_share(caller, topic, added)
        await self._topics.create_partitions(
            topic,
            total,
            assignments=assignments,
            is_ordered=is_ordered,
            validate_only=validate_only,
        )
        if not validate_only:
            self.count(caller, added)

    def check_new(
        self, caller: Caller, topic: str, partitions: int, *, is_strict: bool = True
    ) -> None:
        """Before a topic is made."""
        if is_strict:
            self._quotas.admit(caller, QuotaKind.MUTATIONS)
        self._quotas.limits.check_topics(caller, partitions)
        self._check_share(caller, topic, partitions)

    def _check_share(self, caller: Caller, topic: str, partitions: int) -> None:
        """Whether there is room at each broker is told when they are placed; here, whether the
        tenant leaves some of it to others, and everybody to administrators of the cluster. Copies
        are not counted: there are as many of all."""
        image, config = self._node.image, self._node.config
        if not image.security.tenants:
            return
        views = [each for each in image.topics.values() if not each.is_internal]
        total = sum(len(each.partitions) for each in views)
        brokers = max(1, len(image.brokers)) / max(1, config.default_replication_factor)
        capacity = int(config.max_partitions_per_broker * brokers)
        refusal = self._quotas.partition_shares.refusal(
            topic,
            capacity,
            total,
            lambda: ((each.name, len(each.partitions)) for each in views),
            self._node.clock_ms(),
            count=partitions,
            administers_cluster=self._administers_cluster(caller),
        )
        if refusal:
            raise PolicyViolation(
                f"{partitions} partitions more than the {total} there are: all brokers together "
                f"have {capacity} (max.partitions.per.broker){refusal}"
            )

    def check_deletion(self, caller: Caller) -> None:
        self._quotas.admit(caller, QuotaKind.MUTATIONS)

    def count(self, caller: Caller, partitions: int) -> None:
        """They were made or deleted."""
        self._quotas.charge(caller, QuotaKind.MUTATIONS, partitions)
