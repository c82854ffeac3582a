"""Who leads instead (KIP-951): clients that asked the wrong broker need not ask for metadata."""

from typing import Final

from goqueue.doors.kafka.operation import RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import FencedLeaderEpoch, GoQueueError, NotLeader
from goqueue.model.topics import BrokerView

_HINTED: Final = (NotLeader, FencedLeaderEpoch)


class LeaderHints:
    """Of one answer: leaders of the partitions concerned, and where these brokers are."""

    def __init__(self, context: RequestContext) -> None:
        self._administration = context.service.administration
        self._brokers: dict[int, BrokerView] = {}

    def of(self, topic: str, index: int, error: GoQueueError | None) -> Message | None:
        """For who was refused because it knows an older leader; None where there is no other."""
        if not isinstance(error, _HINTED):
            return None
        found = self._administration.leader(topic, index)
        if found is None or found.broker is None:
            return None
        self._brokers[found.broker.node_id] = found.broker
        return {"leader_id": found.broker.node_id, "leader_epoch": found.epoch}

    def endpoints(self) -> list[Message]:
        return [
            {
                "node_id": broker.node_id,
                "host": broker.host,
                "port": broker.kafka_port,
                "rack": broker.rack,
            }
            for broker in self._brokers.values()
        ]
