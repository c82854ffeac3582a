"""What the broker and its doors count and time."""

from goqueue.broker.measuring.measuring import Measuring
from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.measuring.figures import BrokerFigures
from goqueue.model.measuring.traffic import DoorTraffic
from goqueue.service.access import Access


class MeasuringService:
    def __init__(self, node: Node, access: Access) -> None:
        self._measuring = Measuring(node)
        self._traffic = node.traffic
        self._access = access

    @property
    def traffic(self) -> DoorTraffic:
        """Where doors count what goes through them."""
        return self._traffic

    async def figures(self, caller: Caller, *, groups_max: int, queues_max: int) -> BrokerFigures:
        """Of the first `groups_max` groups and `queues_max` queues by name in detail, with ages."""
        cluster = self._access.describable_cluster(caller)
        return await self._measuring.figures(cluster, groups_max=groups_max, queues_max=queues_max)
