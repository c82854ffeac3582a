"""Tasks that bring dead letters back.

A task receives from the dead-letter queue, sends, then deletes, so a crash may bring one message
twice and loses none. Tasks are kept: after a restart those that ran go on.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.broker.node import Node
from goqueue.broker.queues.tracing import sending_back
from goqueue.doors.sqs.catalogue import DOOR, GROUP, Catalogue, Queue
from goqueue.doors.sqs.errors import ErrorKind, SqsError, invalid_value
from goqueue.doors.sqs.refusals import refusal
from goqueue.model.errors import GoQueueError
from goqueue.model.header_names import DEAD_LETTER_PREFIX, DEAD_LETTER_TOPIC
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.messages import AckAction
from goqueue.model.records import NewRecord

log = logging.getLogger(__name__)

_PREFIX: Final = "move-tasks/"
# API reference, ListMessageMoveTasks: the ten newest are listed.
LISTED_MAX: Final = 10
STEP_MESSAGES: Final = 100
# A dead letter under way is hidden from others for this long.
LEASE_MS: Final = 60_000
# How often a task that runs notes how far it is.
NOTE_EVERY_MESSAGES: Final = 10_000


class StoredTask(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    source: str
    source_arn: str
    destination: str | None
    destination_arn: str | None
    rate: int | None
    started_ms: int
    to_move: int
    moved: int = 0
    status: str = "RUNNING"
    failure: str | None = None


class MoveTaskRunner:
    """The tasks of this broker; one at a time for a dead-letter queue."""

    def __init__(self, broker: Node, catalogue: Catalogue) -> None:
        self._broker = broker
        self._catalogue = catalogue
        self._tasks: dict[str, StoredTask] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def load(self) -> None:
        """Find the tasks again and go on with those that ran."""
        entries = self._broker.image.door_entries
        for key, value in entries.items():
            if key.door == DOOR and key.name.startswith(_PREFIX):
                task = msgspec.json.decode(value, type=StoredTask)
                self._tasks[task.id] = task
                if task.status == "RUNNING":
                    self._run(task.id)

    def of_source(self, source: str) -> list[StoredTask]:
        """The newest first."""
        found = [task for task in self._tasks.values() if task.source == source]
        return sorted(found, key=lambda task: task.started_ms, reverse=True)

    def find(self, task_id: str) -> StoredTask | None:
        return self._tasks.get(task_id)

    async def start(self, task: StoredTask) -> None:
        if any(other.status == "RUNNING" for other in self.of_source(task.source)):
            raise invalid_value(
                "There is already a task running. Only one active task is allowed for a source "
                "queue arn at a given time."
            )
        self._tasks[task.id] = task
        await self._store(task)
        self._run(task.id)
        for old in self.of_source(task.source)[LISTED_MAX:]:
            del self._tasks[old.id]
            await self._broker.keep_door_entry(DOOR, _PREFIX + old.id, None)

    async def cancel(self, task_id: str) -> int:
        """Returns how many were moved."""
        running = self._running.pop(task_id, None)
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await self._end(task_id, "CANCELLED")
        return self._tasks[task_id].moved

    async def close(self) -> None:
        """Stop without an end: the tasks go on after the next start."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _run(self, task_id: str) -> None:
        task = asyncio.create_task(self._carry_out(task_id))
        self._running[task_id] = task
        task.add_done_callback(lambda _: self._running.pop(task_id, None))

    async def _carry_out(self, task_id: str) -> None:
        try:
            await self._move_all(task_id)
        except SqsError as error:
            await self._end(task_id, "FAILED", error.kind.query_code)
        except Exception as error:
            await self._end(task_id, "FAILED", refusal(error).kind.query_code)
        else:
            await self._end(task_id, "COMPLETED")

    async def _move_all(self, task_id: str) -> None:
        task = self._tasks[task_id]
        noted = task.moved
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            source = self._catalogue.find(task.source)
            await self._catalogue.open(source)
            found = await self._broker.queues.receive(
                GROUP,
                source.name,
                max_messages=min(STEP_MESSAGES, task.rate or STEP_MESSAGES),
                lease_ms=LEASE_MS,
                fifo=source.is_fifo,
            )
            if not found:
                return
            if task.rate is not None:
                due = max(due, loop.time()) + len(found) / task.rate
            await self._move(task, source, found)
            task = msgspec.structs.replace(task, moved=task.moved + len(found))
            self._tasks[task_id] = task
            if task.moved - noted >= NOTE_EVERY_MESSAGES:
                noted = task.moved
                await self._store(task)
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def _move(self, task: StoredTask, source: Queue, found: Sequence[Delivery]) -> None:
        by_target: dict[str, list[Delivery]] = {}
        for delivery in found:
            by_target.setdefault(task.destination or _origin(delivery), []).append(delivery)
        moved: list[Delivery] = []
        try:
            for target, deliveries in by_target.items():
                queue = self._catalogue.find(target)
                with sending_back(self._broker.hosted, deliveries):
                    copies = [_copy(delivery) for delivery in deliveries]
                    await self._broker.publish(queue.name, copies, is_checked=True)
                moved += deliveries
                self._broker.queues.dead_letters.sent_back[source.name] += len(deliveries)
        finally:
            for delivery in found:
                action = AckAction.ACCEPT if delivery in moved else AckAction.RELEASE
                await self._broker.queues.acknowledge(
                    GROUP,
                    source.name,
                    delivery.partition,
                    [delivery.receipt.acknowledgement(action)],
                )

    async def _end(self, task_id: str, status: str, failure: str | None = None) -> None:
        task = msgspec.structs.replace(self._tasks[task_id], status=status, failure=failure)
        self._tasks[task_id] = task
        try:
            await self._store(task)
        except GoQueueError as error:
            log.warning(
                "move task %s ended as %s, which could not be kept: %s", task_id, status, error
            )

    async def _store(self, task: StoredTask) -> None:
        stored = msgspec.json.encode(task)
        await self._broker.keep_door_entry(DOOR, _PREFIX + task.id, stored)


def _origin(delivery: Delivery) -> str:
    for name, value in delivery.record.headers:
        if name == DEAD_LETTER_TOPIC and value:
            return value.decode("utf-8", "replace")
    raise SqsError(
        ErrorKind.UNSUPPORTED_OPERATION,
        "CouldNotDetermineMessageSource: a message did not come here as a dead letter.",
    )


def _copy(delivery: Delivery) -> NewRecord:
    record = delivery.record
    return NewRecord(
        key=record.key,
        value=record.value,
        headers=tuple(h for h in record.headers if not h[0].startswith(DEAD_LETTER_PREFIX)),
    )
