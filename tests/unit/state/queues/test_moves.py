"""Move tasks: their states, one at a time for a source, the newest listed."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.queues.moves import (
    MoveEnded,
    MoveRunning,
    MoveStatus,
    MoveTask,
    UnknownMoveTask,
)
from goqueue.state.machine import StateRecord
from goqueue.state.queues.moves import LISTED_MAX, NOTE_EVERY_MESSAGES, MoveTasks, task_record


def new_task(task_id: str = "1", source: str = "dead", started_ms: int = 0) -> MoveTask:
    return MoveTask(
        id=task_id,
        source=source,
        source_arn=f"arn:aws:sqs:us-east-1:000000000000:{source}",
        destination=None,
        destination_arn=None,
        rate=None,
        started_ms=started_ms,
        to_move=3,
    )


def apply(tasks: MoveTasks, records: list[StateRecord]) -> list[StateRecord]:
    for record in records:
        tasks.replay(record)
    return records


def test_one_task_at_a_time_for_a_source() -> None:
    tasks = MoveTasks([task_record(new_task("1"))])
    with pytest.raises(MoveRunning):
        tasks.start(new_task("2"))
    apply(tasks, tasks.start(new_task("2", source="another")))
    apply(tasks, tasks.end("1", MoveStatus.COMPLETED, 3))
    apply(tasks, tasks.start(new_task("3")))
    assert {task.id for task in tasks.running()} == {"2", "3"}


def test_deciding_changes_nothing() -> None:
    tasks = MoveTasks()
    tasks.start(new_task())
    with pytest.raises(UnknownMoveTask):
        tasks.find("1")


def test_a_task_ends_once() -> None:
    tasks = MoveTasks([task_record(new_task())])
    apply(tasks, tasks.cancel("1", 2))
    assert tasks.find("1").status is MoveStatus.CANCELLED
    assert tasks.find("1").moved == 2
    assert tasks.end("1", MoveStatus.COMPLETED, 3) == []
    assert tasks.note("1", 10 * NOTE_EVERY_MESSAGES) == []
    with pytest.raises(MoveEnded):
        tasks.cancel("1", 3)


def test_a_task_is_found_by_its_own_source_only() -> None:
    tasks = MoveTasks([task_record(new_task())])
    assert tasks.find_of_source("dead", "1").id == "1"
    with pytest.raises(UnknownMoveTask):
        tasks.find_of_source("another", "1")


def test_progress_is_written_down_now_and_then() -> None:
    tasks = MoveTasks([task_record(new_task())])
    assert tasks.note("1", NOTE_EVERY_MESSAGES - 1) == []
    apply(tasks, tasks.note("1", NOTE_EVERY_MESSAGES))
    assert tasks.find("1").moved == NOTE_EVERY_MESSAGES
    assert tasks.note("1", NOTE_EVERY_MESSAGES + 1) == []


@given(st.lists(st.sampled_from(MoveStatus), max_size=30))
def test_the_newest_are_listed_and_a_restart_knows_the_same(ends: list[MoveStatus]) -> None:
    tasks = MoveTasks()
    log: dict[bytes, bytes | None] = {}
    for number, end in enumerate(ends):
        records = [*apply(tasks, tasks.start(new_task(str(number), started_ms=number)))]
        if end is MoveStatus.RUNNING:
            # Nothing can be started until it has ended.
            with pytest.raises(MoveRunning):
                tasks.start(new_task("more"))
            end = MoveStatus.FAILED
        records += apply(tasks, tasks.end(str(number), end, 1))
        log.update(records)
    again = MoveTasks(StateRecord(key, value) for key, value in log.items())
    listed = tasks.of_source("dead")
    assert again.of_source("dead") == listed
    newest = range(len(ends) - 1, max(-1, len(ends) - 1 - LISTED_MAX), -1)
    assert [task.id for task in listed] == [str(number) for number in newest]


def test_tasks_of_older_data_folders_are_read() -> None:
    stored = (
        b'{"id":"a1","source":"dead","source_arn":"arn:aws:sqs:us-east-1:000000000000:dead",'
        b'"destination":null,"destination_arn":null,"rate":7,"started_ms":1700000000000,'
        b'"to_move":4,"moved":2,"status":"FAILED","failure":"ServiceUnavailable"}'
    )
    tasks = MoveTasks([StateRecord(b"a1", stored)])
    task = tasks.find("a1")
    assert (task.rate, task.moved, task.status) == (7, 2, MoveStatus.FAILED)
    assert msgspec.json.encode(task) == stored
