"""Move tasks of SQS: a pure machine over one record per task.

    RUNNING ──all is moved──> COMPLETED
       ├──────an error──────> FAILED
       └──────cancel────────> CANCELLED

One task runs at a time for a source. An ended task stays for the lists until newer ones push it
out. Commands return records; only `replay` changes what is known, live and after a start alike.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from goqueue.model.queues.moves import (
    MoveEnded,
    MoveRunning,
    MoveStatus,
    MoveTask,
    UnknownMoveTask,
)
from goqueue.state.machine import StateRecord

# API reference, ListMessageMoveTasks: the ten newest are listed.
LISTED_MAX: Final = 10
# How often a task that runs notes how far it is: a crash makes the count too small by less.
NOTE_EVERY_MESSAGES: Final = 10_000

_DECODER: Final = msgspec.json.Decoder(MoveTask)


def task_record(task: MoveTask) -> StateRecord:
    return StateRecord(task.id.encode(), msgspec.json.encode(task))


class MoveTasks:
    def __init__(self, records: Iterable[StateRecord] = ()) -> None:
        self._tasks: dict[str, MoveTask] = {}
        for record in records:
            self.replay(record)

    def replay(self, record: StateRecord) -> None:
        task_id = record.key.decode()
        if record.value is None:
            self._tasks.pop(task_id, None)
        else:
            self._tasks[task_id] = _DECODER.decode(record.value)

    def find(self, task_id: str) -> MoveTask:
        task = self._tasks.get(task_id)
        if task is None:
            raise UnknownMoveTask("Task does not exist.")
        return task

    def find_of_source(self, source: str, task_id: str) -> MoveTask:
        task = self.find(task_id)
        if task.source != source:
            raise UnknownMoveTask("Task does not exist.")
        return task

    def of_source(self, source: str) -> list[MoveTask]:
        """The newest first."""
        found = [task for task in self._tasks.values() if task.source == source]
        return sorted(found, key=lambda task: task.started_ms, reverse=True)

    def running(self) -> list[MoveTask]:
        return [task for task in self._tasks.values() if task.status is MoveStatus.RUNNING]

    # --- commands -------------------------------------------------------------------------

    def start(self, task: MoveTask) -> list[StateRecord]:
        others = self.of_source(task.source)
        if any(other.status is MoveStatus.RUNNING for other in others):
            raise MoveRunning(
                "There is already a task running. Only one active task is allowed for a source "
                "queue arn at a given time."
            )
        forgotten = others[LISTED_MAX - 1 :]
        return [task_record(task), *(StateRecord(old.id.encode(), None) for old in forgotten)]

    def note(self, task_id: str, moved: int) -> list[StateRecord]:
        """`moved` in all; written down now and then."""
        task = self.find(task_id)
        if task.status is not MoveStatus.RUNNING or moved - task.moved < NOTE_EVERY_MESSAGES:
            return []
        return [task_record(msgspec.structs.replace(task, moved=moved))]

    def cancel(self, task_id: str, moved: int) -> list[StateRecord]:
        if self.find(task_id).status is not MoveStatus.RUNNING:
            raise MoveEnded("Only active tasks can be cancelled.")
        return self.end(task_id, MoveStatus.CANCELLED, moved)

    def end(
        self, task_id: str, status: MoveStatus, moved: int, failure: str | None = None
    ) -> list[StateRecord]:
        """Nothing where it has ended already: the first end counts."""
        task = self.find(task_id)
        if task.status is not MoveStatus.RUNNING:
            return []
        ended = msgspec.structs.replace(task, status=status, moved=moved, failure=failure)
        return [task_record(ended)]
