"""Runs move tasks: dead letters go back to their sources, or to one queue, at a bounded rate.

Tasks are kept in the metadata store, where every broker sees them; one that ran when its broker
ended goes on with the next start. A message is sent before it is deleted, so that a crash between
the two moves it twice and loses none.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol
from uuid import uuid4

import msgspec

from goqueue.broker.own_grants import OwnWork, own_group, own_read, own_write
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.broker.queues.host import OwnPublishing
from goqueue.broker.queues.queues import Queues
from goqueue.broker.queues.sqs_catalogue import SqsCatalogue
from goqueue.broker.queues.sqs_entries import SqsEntries
from goqueue.broker.queues.tracing import sending_back
from goqueue.model.errors import GoQueueError
from goqueue.model.header_names import DEAD_LETTER_PREFIX, DEAD_LETTER_TOPIC
from goqueue.model.names import TopicPartition
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.moves import MoveStatus, MoveTask, UnknownOrigin
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import Settlement
from goqueue.model.queues.sqs_queue import SQS_GROUP
from goqueue.model.records import NewRecord
from goqueue.model.rights import DescribableTopic, ReadableTopic, WritableTopic
from goqueue.state.machine import StateRecord
from goqueue.state.queues.moves import MoveTasks

log = logging.getLogger(__name__)

_PREFIX: Final = "move-tasks/"
# The partition of the source whose leader runs its tasks.
_OWNER: Final = 0
STEP_MESSAGES: Final = 100
_GROUP: Final = own_group(SQS_GROUP, OwnWork.MOVE_TASK)
# A dead letter under way is hidden from others for this long.
LEASE_MS: Final = 60_000


class MoveHost(Protocol):
    """The part of the broker that move tasks stand on."""

    clock_ms: Callable[[], int]
    hosted: HostedPartitions

    @property
    def publishing(self) -> OwnPublishing: ...


class MoveTaskRunner:
    def __init__(
        self, host: MoveHost, queues: Queues, catalogue: SqsCatalogue, entries: SqsEntries
    ) -> None:
        self._host = host
        self._queues = queues
        self._catalogue = catalogue
        self._entries = entries
        self._running: dict[str, asyncio.Task[None]] = {}
        # What running tasks moved, also what is not noted yet.
        self._moved: dict[str, int] = {}
        # A decision and what it stores: one at a time.
        self._changing = asyncio.Lock()

    # --- lifetime -------------------------------------------------------------------------

    def resume(self) -> None:
        """Go on with the tasks that ran when the broker ended, as far as they are for this one."""
        for task in self._tasks().running():
            partition = self._host.hosted.get(task.source, _OWNER)
            if partition is None or partition.led is not None:
                self._run(task)

    def partition_led(self, place: TopicPartition) -> None:
        """Whoever leads a queue's first partition runs its tasks."""
        if place.partition == _OWNER:
            for task in self._tasks().running():
                if task.source == place.topic and task.id not in self._running:
                    self._run(task)

    def partition_lost(self, place: TopicPartition) -> None:
        """Stop without an end: the next leader goes on."""
        if place.partition == _OWNER:
            for task in self._tasks().running():
                running = self._running.get(task.id)
                if task.source == place.topic and running is not None:
                    running.cancel()

    async def close(self) -> None:
        """Stop without an end: the tasks go on after the next start."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # --- tasks ----------------------------------------------------------------------------

    async def start(
        self,
        source: ReadableTopic,
        source_arn: str,
        *,
        destination: WritableTopic | None,
        destination_arn: str | None,
        rate: int | None,
        origins: Sequence[str],
    ) -> MoveTask:
        """Without a destination each message goes back to where it came from: to one of `origins`,
        which the caller may write to."""
        await self._catalogue.open(source)
        described = await self._queues.describe(_GROUP, source)
        task = MoveTask(
            id=uuid4().hex,
            source=source,
            source_arn=source_arn,
            destination=destination,
            destination_arn=destination_arn,
            rate=rate,
            started_ms=self._host.clock_ms(),
            to_move=sum(part.ready + part.waiting for part in described),
            origins=tuple(origins),
        )
        async with self._changing:
            await self._keep(self._tasks().start(task))
        self._run(task)
        return task

    def list_tasks(self, source: DescribableTopic) -> list[MoveTask]:
        """The newest first, with what was moved so far."""
        return [
            msgspec.structs.replace(task, moved=self._moved.get(task.id, task.moved))
            for task in self._tasks().of_source(source)
        ]

    async def cancel(self, source: ReadableTopic, task_id: str) -> int:
        """Returns how many were moved."""
        async with self._changing:
            tasks = self._tasks()
            task = tasks.find_of_source(source, task_id)
            # Refused here if it is over; else nothing is moved any more once it is stopped.
            tasks.cancel(task_id, task.moved)
            running = self._running.pop(task_id, None)
            moved = self._moved.get(task_id, task.moved)
            if running is not None:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                moved = self._moved.pop(task_id, moved)
            await self._keep(self._tasks().end(task_id, MoveStatus.CANCELLED, moved))
            return self._tasks().find(task_id).moved

    def _tasks(self) -> MoveTasks:
        return MoveTasks(
            StateRecord(name.encode(), value) for name, value in self._entries.under(_PREFIX)
        )

    async def _keep(self, records: Sequence[StateRecord]) -> None:
        """The metadata image replays what is stored; `_tasks` shows it on return."""
        if records:
            await self._entries.keep({_PREFIX + key.decode(): value for key, value in records})

    # --- moving ---------------------------------------------------------------------------

    def _run(self, task: MoveTask) -> None:
        self._moved[task.id] = task.moved
        running = asyncio.create_task(self._carry_out(task))
        self._running[task.id] = running
        running.add_done_callback(lambda _: self._stopped(task.id, running))

    def _stopped(self, task_id: str, running: "asyncio.Task[None]") -> None:
        if self._running.get(task_id) is running:
            del self._running[task_id]

    async def _carry_out(self, task: MoveTask) -> None:
        try:
            await self._move_all(task)
        except GoQueueError as error:
            await self._end(task, MoveStatus.FAILED, error.code)
        except Exception:
            log.exception("move task %s failed", task.id)
            await self._end(task, MoveStatus.FAILED, GoQueueError.code)
        else:
            await self._end(task, MoveStatus.COMPLETED)

    async def _end(self, task: MoveTask, status: MoveStatus, failure: str | None = None) -> None:
        try:
            await self._keep(self._tasks().end(task.id, status, self._moved[task.id], failure))
        except GoQueueError as error:
            log.warning(
                "move task %s ended as %s, which could not be kept: %s", task.id, status, error
            )
        else:
            self._moved.pop(task.id, None)

    async def _move_all(self, task: MoveTask) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            topic = own_read(task.source, OwnWork.MOVE_TASK)
            source = await self._catalogue.open(topic)
            request = Receive(
                max_messages=min(STEP_MESSAGES, task.rate or STEP_MESSAGES),
                lease_ms=LEASE_MS,
                in_order=source.is_fifo,
                until_empty=True,
            )
            found = await self._queues.receive(_GROUP, topic, request)
            if not found:
                return
            if task.rate is not None:
                due = max(due, loop.time()) + len(found) / task.rate
            await self._move(task, topic, found)
            self._moved[task.id] += len(found)
            await self._keep(self._tasks().note(task.id, self._moved[task.id]))
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def _move(self, task: MoveTask, source: ReadableTopic, found: Sequence[Delivery]) -> None:
        by_target: dict[str, list[Delivery]] = {}
        moved: list[Delivery] = []
        origins = task.origins
        if isinstance(origins, msgspec.UnsetType):
            origins = tuple(self._catalogue.origins_of(task.source))
        try:
            for delivery in found:
                target = task.destination or _origin(delivery, origins)
                by_target.setdefault(target, []).append(delivery)
            for target, deliveries in by_target.items():
                writable = own_write(target, OwnWork.MOVE_TASK)
                self._catalogue.find(writable)
                with sending_back(deliveries):
                    copies = [_copy(delivery) for delivery in deliveries]
                    outcomes = await self._host.publishing.publish(writable, copies)
                failures = [each for each in outcomes if isinstance(each, GoQueueError)]
                moved += [
                    delivery
                    for delivery, outcome in zip(deliveries, outcomes, strict=True)
                    if not isinstance(outcome, GoQueueError)
                ]
                self._queues.dead_letters.sent_back[source] += len(deliveries) - len(failures)
                for failure in failures:
                    raise failure
        finally:
            settlements = [
                Settlement(
                    delivery.receipt,
                    AckAction.ACCEPT if delivery in moved else AckAction.RELEASE,
                )
                for delivery in found
            ]
            await self._queues.settle(_GROUP, {source: source}, settlements)


def _origin(delivery: Delivery, origins: Sequence[str]) -> str:
    """Any producer may write the header: only those are believed that send dead letters here."""
    for name, value in delivery.record.headers:
        if name == DEAD_LETTER_TOPIC and value:
            named = value.decode("utf-8", "replace")
            if named not in origins:
                raise UnknownOrigin(f"topic {named!r} does not send its dead letters here")
            return named
    raise UnknownOrigin("a message did not come here as a dead letter")


def _copy(delivery: Delivery) -> NewRecord:
    record = delivery.record
    return NewRecord(
        key=record.key,
        value=record.value,
        headers=tuple(h for h in record.headers if not h[0].startswith(DEAD_LETTER_PREFIX)),
    )
