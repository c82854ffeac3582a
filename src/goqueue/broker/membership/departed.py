"""Brokers that were there until a while ago: clients are still told where they were.

A client that is not told of a broker any more drops all it had to do with it. librdkafka (2.11 to
2.16 at least) keeps it as the coordinator of a group meanwhile, and waits for a connection that
nobody makes any more, past every time-out. Told of the broker, it tries, fails and asks who is the
coordinator now. Most brokers come back within minutes anyway.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from goqueue.model.names import NodeId
from goqueue.model.topics import BrokerView
from goqueue.state.metadata_image import MetadataImage

# Longer than clients remember a coordinator that they do not use (`metadata.max.age.ms` of
# librdkafka, 15 minutes).
KEPT_S: Final = 20 * 60.0


class _Left(NamedTuple):
    broker: BrokerView
    at_s: float


class Departed:
    def __init__(
        self,
        image: Callable[[], MetadataImage],
        *,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._image = image
        self._clock_s = clock_s
        self._admitted: dict[NodeId, BrokerView] = {}
        self._left: dict[NodeId, _Left] = {}

    def look(self) -> None:
        """Note who is there now, and who is not any more."""
        image, now_s = self._image(), self._clock_s()
        admitted = {node: image.brokers[node] for node in image.admitted()}
        for node, broker in self._admitted.items():
            if node not in admitted:
                self._left[node] = _Left(broker, now_s)
        for node in admitted:
            self._left.pop(node, None)
        self._admitted = admitted

    @property
    def brokers(self) -> tuple[BrokerView, ...]:
        """Who left is told of for a while, unless it left for good; who comes back, where it is
        now, also before it is admitted again."""
        image, oldest_s = self._image(), self._clock_s() - KEPT_S
        return tuple(
            image.brokers.get(node, left.broker)
            for node, left in self._left.items()
            if left.at_s >= oldest_s and node in image.nodes
        )
