"""Publishing single records, now or later, for doors that do not speak in batches."""

from collections.abc import Sequence

from goqueue.broker.node import Node
from goqueue.broker.quotas.metering import Metering
from goqueue.model.caller import Caller
from goqueue.model.publishing import Outcome
from goqueue.model.records import NewRecord
from goqueue.service.security.access import Access
from goqueue.service.topic_making import TopicMaking


class PublishingService:
    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._access = access
        self._metering = Metering(node)
        self._making = TopicMaking(node, access)

    def now_ms(self) -> int:
        """The clock that due times are measured by."""
        return self._node.clock_ms()

    async def publish(
        self,
        caller: Caller,
        topic: str,
        records: Sequence[NewRecord],
        due: Sequence[int | None] | None = None,
        *,
        partitions: Sequence[int | None] | None = None,
        as_one: bool = False,
        makes_topic: bool = False,
    ) -> list[Outcome]:
        """Store records that fit the topic's schemas; say of each where it is, or why it is not.

        `due`: when each is to be delivered (ms since 1970); None, or what has passed, is now.
        `partitions`: where each goes, instead of where its key leads. `as_one`: one that does not
        fit refuses all. `makes_topic`: as the broker's settings allow, if it is not there.
        """
        writable = self._access.writable_topic(caller, topic)
        self._metering.publishing(caller, records)
        if makes_topic and topic not in self._node.image.topics:
            await self._making.ensure(caller, topic)
        return await self._node.publishing.publish(
            writable, records, due=due, partitions=partitions, as_one=as_one
        )
