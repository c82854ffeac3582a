"""What answers to share fetches and acknowledgements have in common."""

from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.topics import PartitionView


def current_leader(partition: PartitionView | None) -> Message:
    if partition is None:
        return {"leader_id": -1, "leader_epoch": -1}
    return {"leader_id": partition.leader, "leader_epoch": partition.leader_epoch}
