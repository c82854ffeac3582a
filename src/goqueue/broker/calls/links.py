"""Connections to the other brokers: one for each, opened when it is first needed.

One leads to a registration of a broker. When that ends, whoever waits for an answer is told so.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from goqueue.model.client_security import SecurityOf, no_security
from goqueue.model.errors import BrokerUnreachable
from goqueue.model.names import NodeId
from goqueue.state.metadata_image import ImageChanges, MetadataImage

if TYPE_CHECKING:
    from goqueue.broker.calls.link import CallLink

# Far below the time after which the other side closes what nobody uses.
LINK_IDLE_S: Final = 60.0


class Links:
    def __init__(
        self, image: Callable[[], MetadataImage], security: SecurityOf = no_security
    ) -> None:
        self._image = image
        self._security = security
        self._links: dict[NodeId, asyncio.Task[CallLink]] = {}
        # Which registration of a broker a link leads to.
        self._epochs: dict[NodeId, int] = {}
        self._is_closed = False

    async def to(self, node_id: NodeId, timeout_s: float) -> "CallLink":
        from goqueue.broker.calls.link import CallLink  # a node of one needs none of it

        broker = self._image().brokers.get(node_id)
        if broker is None or self._is_closed:
            raise BrokerUnreachable(f"broker {node_id} is not there")
        opening = self._links.get(node_id)
        if opening is None or self._epochs[node_id] != broker.epoch or _is_spent(opening):
            self._drop(node_id, f"broker {node_id} was restarted")
            address = (broker.host, broker.kafka_port)
            link = CallLink.open(*address, self._security(*address))
            opening = asyncio.create_task(link)
            opening.add_done_callback(_taken_note_of)
            self._links[node_id], self._epochs[node_id] = opening, broker.epoch
        if not opening.done():
            # Whoever goes away meanwhile does not stop it for the others.
            await asyncio.wait((opening,), timeout=timeout_s)
        if not opening.done():
            raise BrokerUnreachable(f"broker {node_id} was not reached within {timeout_s:g} s")
        if opening.cancelled():
            raise BrokerUnreachable(f"broker {node_id} is gone")
        return opening.result()

    @property
    def open_count(self) -> int:
        return sum(not _is_spent(each) for each in self._links.values())

    def image_changed(self, changes: ImageChanges) -> None:
        """Nobody waits any longer for a broker that is gone."""
        brokers = self._image().brokers
        for node_id in changes.brokers_changed:
            broker = brokers.get(node_id)
            if node_id in self._links and (broker is None or broker.epoch != self._epochs[node_id]):
                self._drop(node_id, f"broker {node_id} is gone; whether it was done is not known")

    def close(self) -> None:
        self._is_closed = True
        for node_id in list(self._links):
            self._drop(node_id, "the broker is shutting down")

    def _drop(self, node_id: NodeId, reason: str) -> None:
        opening = self._links.pop(node_id, None)
        if opening is None:
            return
        if not opening.done():
            opening.cancel()
        elif not opening.cancelled() and opening.exception() is None:
            opening.result().close(reason)


def _is_spent(opening: "asyncio.Task[CallLink]") -> bool:
    if not opening.done():
        return False
    if opening.cancelled() or opening.exception() is not None:
        return True
    link = opening.result()
    return not link.is_open or link.idle_seconds > LINK_IDLE_S


def _taken_note_of(opening: "asyncio.Task[CallLink]") -> None:
    """Perhaps nobody waits for it any more."""
    if not opening.cancelled():
        opening.exception()
