"""Answers to heartbeats that carry an assignment: of consumer groups and of share groups."""

from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.messages import ConsumerGroupHeartbeatResult
from goqueue.model.groups.share_messages import ShareGroupHeartbeatResult


def heartbeat_answer(result: ConsumerGroupHeartbeatResult | ShareGroupHeartbeatResult) -> Message:
    given = None
    if result.assignment is not None:
        given = {
            "topic_partitions": [
                {"topic_id": topic_id, "partitions": sorted(partitions)}
                for topic_id, partitions in result.assignment.items()
            ]
        }
    return {
        "error_code": group_code(result.error),
        "error_message": result.error_message or None,
        "member_id": result.member_id or None,
        "member_epoch": result.member_epoch,
        "heartbeat_interval": result.heartbeat_interval_ms,
        "assignment": given,
    }


def heartbeat_failure(error: GoQueueError, member_id: str, member_epoch: int) -> Message:
    """The coordinator itself cannot be used."""
    return {
        "error_code": failure_code(error),
        "error_message": error.message,
        "member_id": member_id,
        "member_epoch": member_epoch,
        "heartbeat_interval": 0,
    }
