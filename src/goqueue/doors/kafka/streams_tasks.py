"""Tasks of streams groups as rows of an answer."""

from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.groups.tasks import TaskRole, Tasks, of_role


def role_rows(tasks: Tasks) -> Message:
    """No tasks warm up here: see `TaskRole`."""
    return {
        "active_tasks": _rows(tasks, TaskRole.ACTIVE),
        "standby_tasks": _rows(tasks, TaskRole.STANDBY),
        "warmup_tasks": [],
    }


def _rows(tasks: Tasks, role: TaskRole) -> list[Message]:
    return [
        {"subtopology_id": subtopology, "partitions": sorted(partitions)}
        for subtopology, partitions in sorted(of_role(tasks, role).items())
    ]
