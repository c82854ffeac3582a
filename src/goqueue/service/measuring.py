"""What the broker and its doors count and time."""

from collections.abc import Awaitable, Callable, Mapping

from goqueue.broker.measuring.measuring import Measuring
from goqueue.broker.measuring.workers import WorkerFigures
from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.measuring.figures import BrokerFigures
from goqueue.model.measuring.traffic import DoorTraffic
from goqueue.model.rights import DescribableCluster
from goqueue.service.security.access import Access


class MeasuringService:
    def __init__(self, node: Node, access: Access) -> None:
        self._node = node
        self._measuring = Measuring(node)
        self._traffic = node.traffic
        self._access = access
        self._workers: WorkerFigures | None = None

    @property
    def traffic(self) -> DoorTraffic:
        """Where doors count what goes through them."""
        return self._traffic

    async def figures(self, caller: Caller, *, groups_max: int, queues_max: int) -> BrokerFigures:
        """Of the first `groups_max` groups and `queues_max` queues by name in detail, with ages."""
        cluster = self._access.describable_cluster(caller)
        return await self._measuring.figures(cluster, groups_max=groups_max, queues_max=queues_max)

    @property
    def is_of_workers(self) -> bool:
        """Whether other workers of this machine are asked for their figures at the same port."""
        return self._node.config.workers > 1

    def offer_to_workers(
        self,
        write: Callable[[BrokerFigures], Awaitable[bytes]],
        *,
        groups_max: int,
        queues_max: int,
    ) -> None:
        """What each worker tells of itself: figures as in `figures`, as the door writes them."""

        async def read_and_write(cluster: DescribableCluster) -> bytes:
            read = self._measuring.figures(cluster, groups_max=groups_max, queues_max=queues_max)
            return await write(await read)

        self._workers = WorkerFigures(self._node.calls, read_and_write)

    async def written_by_workers(self, caller: Caller) -> Mapping[int, bytes | None]:
        """What all workers offer, this one too; None of one that does not answer."""
        cluster = self._access.describable_cluster(caller)
        assert self._workers is not None
        texts = (await self._workers.of_all(cluster)).answers
        return {int(node): texts.get(node) for node in sorted(self._node.image.nodes)}
