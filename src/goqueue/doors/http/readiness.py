"""When this broker may be sent traffic."""

import asyncio

from goqueue.broker.node import Node
from goqueue.model.topics import BrokerView


class Readiness:
    """Ready from the broker's announcement to the door's closing.

    An announcement of an earlier run is still in the metadata when the door opens. It may be equal
    to the new one, so what tells them apart is that an image takes over what did not change.
    """

    def __init__(self, broker: Node, closing: asyncio.Event) -> None:
        self._broker = broker
        self._closing = closing
        self._earlier = self._announcement()

    def reason_not_ready(self) -> str | None:
        if self._closing.is_set():
            return "the broker is shutting down"
        if self._announcement() is self._earlier:
            return "the broker is starting: not all of its doors are open"
        return None

    def _announcement(self) -> BrokerView | None:
        return self._broker.image.brokers.get(self._broker.node_id)
