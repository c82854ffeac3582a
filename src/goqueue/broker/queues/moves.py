"""Runs move tasks: dead letters go back to their sources, or to one queue, at a bounded rate.

Tasks are kept in the metadata store, where every broker sees them. The leader of the source's first
partition starts, cancels and runs them; when it is gone, the next one goes on. A message is sent
before it is deleted, so that a crash between the two moves it twice and loses none.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol
from uuid import uuid4

import msgspec

from goqueue.broker.calls.calls import Calls, Untouched
from goqueue.broker.calls.passing import PASSING
from goqueue.broker.own_grants import OwnWork, own_group, own_read, own_write
from goqueue.broker.partitions.hosting import HostedPartitions
from goqueue.broker.queues.host import OwnPublishing
from goqueue.broker.queues.queues import Queues
from goqueue.broker.queues.sqs_catalogue import SqsCatalogue
from goqueue.broker.queues.sqs_entries import SqsEntries
from goqueue.broker.queues.tracing import sending_back
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.calls import Method
from goqueue.model.errors import (
    GoQueueError,
    MetadataUnavailable,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
)
from goqueue.model.header_names import DEAD_LETTER_PREFIX, DEAD_LETTER_TOPIC
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.moves import MoveStarter, MoveStatus, MoveTask, UnknownOrigin
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import Settlement
from goqueue.model.queues.sqs_queue import SQS_GROUP
from goqueue.model.records import NewRecord
from goqueue.model.rights import DescribableTopic, ReadableTopic, WritableTopic
from goqueue.model.security.tenants import inner_name, tenant_of_topic
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
# A task goes on after these.
_PASSING: Final = (
    *PASSING,
    MetadataUnavailable,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
)
# Between two tries, and for how long a task tries without moving anything: a cluster that is away
# for longer is not back soon, and whoever started the task should know.
RETRY_S: Final = 1.0
GIVE_UP_S: Final = 900.0
# How long a list waits for the count of a task that runs elsewhere.
COUNT_TIMEOUT_S: Final = 2.0


class StartMove(msgspec.Struct, frozen=True):
    source: ReadableTopic
    source_arn: str
    destination: WritableTopic | None
    destination_arn: str | None
    rate: int | None
    origins: list[str]
    starter: MoveStarter | msgspec.UnsetType = msgspec.UNSET


class CancelMove(msgspec.Struct, frozen=True):
    source: ReadableTopic
    task_id: str


class CountMoved(msgspec.Struct, frozen=True):
    source: DescribableTopic


START: Final = Method("moves.start", StartMove, MoveTask)
CANCEL: Final = Method("moves.cancel", CancelMove, int)
# By task, of those that run.
MOVED: Final = Method("moves.moved", CountMoved, dict[str, int], waits=True, is_repeatable=True)


class MoveHost(Protocol):
    """The part of the broker that move tasks stand on."""

    config: BrokerConfig
    clock_ms: Callable[[], int]
    calls: Calls
    hosted: HostedPartitions

    @property
    def is_alone(self) -> bool: ...
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
        # Raises `AccessDenied` once who started a task has lost a right that it needs. Set by those
        # who decide about rights.
        self.check: Callable[[MoveTask], None] | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        # What running tasks moved, also what is not noted yet.
        self._moved: dict[str, int] = {}
        # A decision and what it stores: one at a time.
        self._changing = asyncio.Lock()
        host.calls.serve(START, self._start_here)
        host.calls.serve(CANCEL, self._cancel_here)
        host.calls.serve(MOVED, self._moved_here)

    # --- lifetime -------------------------------------------------------------------------

    def resume(self) -> None:
        """Of a node of one: go on with the tasks that ran when it ended."""
        if self._host.is_alone:
            for task in self._tasks().running():
                self._run(task, is_new=False)

    def partition_led(self, place: TopicPartition) -> None:
        """Whoever leads a queue's first partition runs its tasks."""
        if place.partition == _OWNER:
            for task in self._tasks().running():
                if task.source == place.topic and task.id not in self._running:
                    self._run(task, is_new=False)

    def partition_lost(self, place: TopicPartition) -> None:
        """Stop without an end: the next leader goes on."""
        if place.partition == _OWNER:
            for task in self._tasks().running():
                running = self._running.pop(task.id, None) if task.source == place.topic else None
                if running is not None:
                    running.cancel()
                    self._stopping.add(running)

    async def close(self) -> None:
        """Stop without an end: the tasks go on after the next start."""
        running = [*self._running.values(), *self._stopping]
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
        starter: MoveStarter | None,
    ) -> MoveTask:
        """Without a destination each message goes back to where it came from: to one of `origins`,
        which the caller may write to. `starter` None: nobody's rights can end it."""
        request = StartMove(
            source,
            source_arn,
            destination,
            destination_arn,
            rate,
            list(origins),
            msgspec.UNSET if starter is None else starter,
        )
        return await self._host.calls.ask(START, topic_partition(source, _OWNER), request)

    async def _start_here(self, new: StartMove) -> MoveTask:
        await self._catalogue.open(new.source)
        described = await self._queues.describe(_GROUP, new.source)
        task = MoveTask(
            id=uuid4().hex,
            source=new.source,
            source_arn=new.source_arn,
            destination=new.destination,
            destination_arn=new.destination_arn,
            rate=new.rate,
            started_ms=self._host.clock_ms(),
            to_move=sum(part.ready + part.waiting for part in described),
            origins=tuple(new.origins),
            starter=new.starter,
        )
        async with self._changing:
            records = self._tasks().start(task)
            changes = {_PREFIX + key.decode(): value for key, value in records}
            try:
                await self._entries.keep(changes, led=topic_partition(new.source, _OWNER))
            except NotLeader as error:
                # Another broker may have started one, of which this one had not heard.
                raise Untouched(error) from None
        self._run(task, is_new=True)
        return task

    async def list_tasks(self, source: DescribableTopic) -> list[MoveTask]:
        """The newest first, with what was moved so far: noted, unless who runs them can tell."""
        tasks = self._tasks().of_source(source)
        if not any(task.status is MoveStatus.RUNNING for task in tasks):
            return tasks
        moved: dict[str, int] = {}
        with contextlib.suppress(GoQueueError):
            moved = await self._host.calls.ask(
                MOVED,
                topic_partition(source, _OWNER),
                CountMoved(source),
                timeout_s=COUNT_TIMEOUT_S,
                patience_s=0,
            )
        # It may have ended meanwhile.
        return [
            msgspec.structs.replace(task, moved=max(task.moved, moved.get(task.id, 0)))
            for task in self._tasks().of_source(source)
        ]

    async def _moved_here(self, request: CountMoved) -> dict[str, int]:
        running = self._tasks().of_source(request.source)
        return {task.id: self._moved[task.id] for task in running if task.id in self._moved}

    async def cancel(self, source: ReadableTopic, task_id: str) -> int:
        """Returns how many were moved."""
        request = CancelMove(source, task_id)
        return await self._host.calls.ask(CANCEL, topic_partition(source, _OWNER), request)

    async def _cancel_here(self, request: CancelMove) -> int:
        async with self._changing:
            tasks, task_id = self._tasks(), request.task_id
            task = tasks.find_of_source(request.source, task_id)
            # Refused here if it is over; else nothing is moved any more once it is stopped.
            tasks.cancel(task_id, task.moved)
            running = self._running.pop(task_id, None)
            moved = self._moved.get(task_id, task.moved)
            if running is not None:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                moved = self._moved.pop(task_id, moved)
            await self._change(
                task_id, lambda stored: stored.end(task_id, MoveStatus.CANCELLED, moved)
            )
            return self._tasks().find(task_id).moved

    def _tasks(self) -> MoveTasks:
        return MoveTasks(
            StateRecord(name.encode(), value) for name, value in self._entries.under(_PREFIX)
        )

    async def _change(
        self, task_id: str, command: Callable[[MoveTasks], Sequence[StateRecord]]
    ) -> None:
        """Of the task as it is stored. `_tasks` shows it on return."""

        def decide(stored: bytes | None) -> bytes:
            tasks = MoveTasks([StateRecord(task_id.encode(), stored)])
            changed = command(tasks)
            value = changed[0].value if changed else stored
            assert value is not None
            return value

        if command(self._tasks()):
            await self._entries.change(_PREFIX + task_id, decide)

    # --- moving ---------------------------------------------------------------------------

    def _run(self, task: MoveTask, *, is_new: bool) -> None:
        self._moved[task.id] = task.moved
        running = asyncio.create_task(self._carry_out(task, is_new=is_new))
        self._running[task.id] = running
        running.add_done_callback(lambda _: self._stopped(task.id, running))

    def _stopped(self, task_id: str, running: "asyncio.Task[None]") -> None:
        self._stopping.discard(running)
        if self._running.get(task_id) is running:
            del self._running[task_id]

    async def _carry_out(self, task: MoveTask, *, is_new: bool) -> None:
        try:
            await self._move_all(task, is_new=is_new)
        except GoQueueError as error:
            await self._end(task, MoveStatus.FAILED, error.code)
        except Exception:
            log.exception("move task %s failed", task.id)
            await self._end(task, MoveStatus.FAILED, GoQueueError.code)
        else:
            await self._end(task, MoveStatus.COMPLETED)

    async def _end(self, task: MoveTask, status: MoveStatus, failure: str | None = None) -> None:
        moved = self._moved[task.id]
        try:
            await self._change(task.id, lambda tasks: tasks.end(task.id, status, moved, failure))
        except GoQueueError as error:
            log.warning(
                "move task %s ended as %s, which could not be kept: %s", task.id, status, error
            )
        else:
            self._moved.pop(task.id, None)

    async def _move_all(self, task: MoveTask, *, is_new: bool) -> None:
        """Until nothing is left, or somebody else ended it."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        # Until then, what is in flight may have been taken for this task by a broker that is gone.
        taken_until = due if is_new else due + LEASE_MS / 1000
        moved_at = due
        while self._tasks().find(task.id).status is MoveStatus.RUNNING:
            try:
                self._check(task)
                found = await self._next(task)
                if not found:
                    if loop.time() >= taken_until or not await self._in_flight(task):
                        return
                    await asyncio.sleep(RETRY_S)
                    continue
                if task.rate is not None:
                    due = max(due, loop.time()) + len(found) / task.rate
                await self._move(task, own_read(task.source, OwnWork.MOVE_TASK), found)
            except _PASSING as error:
                if loop.time() >= moved_at + GIVE_UP_S:
                    raise
                log.info("move task %s goes on soon: %s", task.id, error)
                taken_until = loop.time() + LEASE_MS / 1000
                await asyncio.sleep(RETRY_S)
                continue
            moved_at = loop.time()
            self._moved[task.id] += len(found)
            await self._note(task.id)
            await asyncio.sleep(max(0.0, due - loop.time()))

    def _check(self, task: MoveTask) -> None:
        """Before each step: no step lasts longer than about a second."""
        if isinstance(task.starter, msgspec.UnsetType):
            return
        if self.check is not None:
            self.check(task)
        elif self._host.config.security_enabled:
            raise MetadataUnavailable("who may do what is not known yet")

    async def _note(self, task_id: str) -> None:
        moved = self._moved[task_id]
        with contextlib.suppress(MetadataUnavailable):
            await self._change(task_id, lambda tasks: tasks.note(task_id, moved))

    async def _next(self, task: MoveTask) -> list[Delivery]:
        topic = own_read(task.source, OwnWork.MOVE_TASK)
        source = await self._catalogue.open(topic)
        request = Receive(
            max_messages=min(STEP_MESSAGES, task.rate or STEP_MESSAGES),
            lease_ms=LEASE_MS,
            in_order=source.is_fifo,
            until_empty=True,
        )
        return await self._queues.receive(_GROUP, topic, request)

    async def _in_flight(self, task: MoveTask) -> bool:
        topic = own_read(task.source, OwnWork.MOVE_TASK)
        return any(part.in_flight for part in await self._queues.describe(_GROUP, topic))

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
            tenant = tenant_of_topic(delivery.topic)
            named = inner_name(tenant, value.decode("utf-8", "replace"))
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
