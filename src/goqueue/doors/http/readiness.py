"""When this broker may be sent traffic."""

import asyncio

from goqueue.broker.service import Broker


class Readiness:
    """Ready from the broker's announcement to the door's closing.

    An announcement of an earlier run is still in the metadata when the door opens, so only one made
    since then counts.
    """

    def __init__(self, broker: Broker, closing: asyncio.Event) -> None:
        self._broker = broker
        self._closing = closing
        self._revision_at_start = broker.image.revision

    def reason_not_ready(self) -> str | None:
        if self._closing.is_set():
            return "the broker is shutting down"
        image = self._broker.image
        is_announced = (
            image.revision > self._revision_at_start and self._broker.node_id in image.brokers
        )
        return None if is_announced else "the broker is starting: not all of its doors are open"
