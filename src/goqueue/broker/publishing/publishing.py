"""Single records, for doors that do not speak in batches: stored now, or kept until due."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from goqueue.broker.calls.calls import Calls
from goqueue.broker.delays.delays import Delays
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.publishing.appending import Appending
from goqueue.broker.publishing.spreading import led_partition, published, spread
from goqueue.broker.schemas.validation import Validation
from goqueue.broker.tracing.recorder import CONTINUED, Continuation, continuing_part
from goqueue.broker.tracing.tracing import Tracing
from goqueue.model.calls import Method
from goqueue.model.delays import DelayedId, ScheduledMessage
from goqueue.model.errors import (
    GoQueueError,
    InvalidRequest,
    NotLeader,
    PolicyViolation,
    UnfitRecord,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.model.log import Appended, Published
from goqueue.model.names import topic_partition
from goqueue.model.publishing import Outcome, WriterTurn
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.rights import WritableTopic
from goqueue.model.topics import TopicView, is_internal
from goqueue.model.tracing.spans import TracedMessage
from goqueue.state.metadata_image import MetadataImage

# A commit that the disk does not finish within this time has failed for whoever waits.
PUBLISH_TIMEOUT_MS: Final = 30_000


class AppendBatch(msgspec.Struct, frozen=True):
    """A batch for one partition, answered when it is committed."""

    topic: WritableTopic
    index: int
    batch: bytearray
    # The stories that its records continue.
    continued: list[Continuation | None] | None
    turn: WriterTurn | None


class KeepUntilDue(msgspec.Struct, frozen=True):
    topic: WritableTopic
    index: int
    records: list[tuple[NewRecord, int]]
    turn: WriterTurn | None


class AppendedBatch(NamedTuple):
    """`traced`: the first of its records that is, for their producer."""

    appended: Appended
    traced: TracedMessage | None


APPEND: Final = Method("publishing.append", AppendBatch, AppendedBatch)
KEEP: Final = Method("publishing.keep", KeepUntilDue, list[DelayedId])


class _Job(NamedTuple):
    """Work for some of the records, by their positions; it answers for each of them."""

    positions: list[int]
    work: Awaitable[Sequence[Outcome]]


class Publishing:
    def __init__(
        self,
        appending: Appending,
        delays: Delays,
        validation: Validation,
        calls: Calls,
        tracing: Tracing,
        *,
        image: Callable[[], MetadataImage],
        find: Callable[[str, int], Partition],
        clock_ms: Callable[[], int],
    ) -> None:
        self._appending = appending
        self._delays = delays
        self._validation = validation
        self._calls = calls
        self._tracing = tracing
        self._image = image
        self._find = find
        self._clock_ms = clock_ms
        calls.serve(APPEND, self._append_here)
        calls.serve(KEEP, self._keep_here)

    async def publish(
        self,
        topic: WritableTopic,
        records: Sequence[NewRecord],
        *,
        due: Sequence[int | None] | None = None,
        partitions: Sequence[int | None] | None = None,
        as_one: bool = False,
        turn: WriterTurn | None = None,
    ) -> list[Outcome]:
        """Store records that fit the topic's schemas; say of each where it is, or why it is not.

        `due`: when each is to be delivered (ms since 1970); None, or what has passed, is now.
        `partitions`: where each goes, instead of where its key leads. Those of one partition are
        stored together or not at all, and so are those of one that wait. `as_one`: one that does
        not fit refuses all. `turn`: nothing is stored once it is over.
        """
        view = self._writable(topic, records, partitions)
        refused: dict[int, UnfitRecord] = {}
        if self._validation.applies_to(topic):
            refused = await self._validation.unfit_records(topic, records)
            for position, refusal in refused.items() if as_one else ():
                raise UnfitRecord(str(refusal), position)
        now_ms = self._clock_ms()
        by_partition = spread(records, partitions, len(view.partitions), sticky=led_partition(view))
        if due is None and not refused and len(by_partition) == 1:
            # The common case: one append, and no task for it.
            [index] = by_partition
            try:
                return list(await self._append(topic, index, records, now_ms, turn))
            except GoQueueError as error:
                return [error] * len(records)
        jobs: list[_Job] = []
        for index, positions in by_partition.items():
            fit = [at for at in positions if at not in refused]
            due = due or [None] * len(records)
            jobs += self._jobs(topic, index, records, fit, due, now_ms, turn)
        outcomes = await _outcomes(jobs)
        outcomes.update(refused)
        return [outcomes[at] for at in range(len(records))]

    def publish_at_once(
        self, topic: WritableTopic, index: int, records: Sequence[NewRecord], turn: WriterTurn
    ) -> list[Published] | None:
        """As `publish`, of records of one partition, if there is nothing to wait for: this broker
        leads it alone. None: there is, and nothing was done."""
        self._writable(topic, records, None)
        if not self._calls.is_here(topic_partition(topic, index)):
            return None
        partition = self._find(topic, index)
        if not partition.commits_at_once or self._validation.applies_to(topic):
            return None
        self._check_term(topic, turn)
        partition.sole_writer.admit(turn)
        now_ms = self._clock_ms()
        batch = encode_records(records, now_ms=now_ms)
        appended = self._appending.append_at_once(partition, batch)
        return None if appended is None else published(records, index, appended, now_ms)

    def _jobs(
        self,
        topic: WritableTopic,
        index: int,
        records: Sequence[NewRecord],
        positions: Sequence[int],
        due: Sequence[int | None],
        now_ms: int,
        turn: WriterTurn | None,
    ) -> Iterator[_Job]:
        """What there is to do for a partition: at most one append, and one batch to keep."""
        timed = {at: due_ms for at in positions if (due_ms := due[at] or 0) > now_ms}
        at_once = [at for at in positions if at not in timed]
        if at_once:
            append = self._append(topic, index, [records[at] for at in at_once], now_ms, turn)
            yield _Job(at_once, continuing_part(at_once, append))
        if timed:
            later = [(records[at], due_ms) for at, due_ms in timed.items()]
            yield _Job(list(timed), self._schedule(topic, index, later, turn))

    async def store_own(
        self, topic: WritableTopic, records: Sequence[NewRecord], *, partition: int | None = None
    ) -> list[Published]:
        """Store dead letters, whatever schemas say of them."""
        partitions = None if partition is None else [partition] * len(records)
        view = self._writable(topic, records, partitions)
        now_ms = self._clock_ms()
        by_partition = spread(records, partitions, len(view.partitions), sticky=led_partition(view))
        answers = await asyncio.gather(
            *(
                continuing_part(
                    positions,
                    self._append(topic, index, [records[at] for at in positions], now_ms),
                )
                for index, positions in by_partition.items()
            )
        )
        stored: dict[int, Published] = {}
        for positions, answer in zip(by_partition.values(), answers, strict=True):
            stored.update(zip(positions, answer, strict=True))
        return [stored[at] for at in range(len(records))]

    async def store_audit(self, topic: WritableTopic, records: Sequence[NewRecord]) -> None:
        """In the first partition of a topic of the broker's own, wherever it is led."""
        await self._append(topic, 0, records, self._clock_ms())

    async def store_led(
        self, topic: WritableTopic, partition: Partition, records: Sequence[NewRecord]
    ) -> None:
        """As `store_own`, under this leadership of the partition or not at all."""
        if is_internal(topic):
            raise PolicyViolation(f"topic {topic!r} is written by the broker only")
        partition.check_enough_in_sync()
        batch = encode_records(records, now_ms=self._clock_ms())
        appended = await self._appending.append(partition, batch)
        await partition.wait_committed(appended.last_offset + 1, PUBLISH_TIMEOUT_MS)

    def _writable(
        self,
        topic: WritableTopic,
        records: Sequence[NewRecord],
        partitions: Sequence[int | None] | None,
    ) -> TopicView:
        """The topic, if it takes the records."""
        if not records:
            raise InvalidRequest("messages: at least one is needed")
        view = self._image().topics.get(topic)
        if view is None:
            raise UnknownTopic(f"there is no topic {topic!r}")
        if is_internal(topic):
            raise PolicyViolation(f"topic {topic!r} is written by the broker only")
        count = len(view.partitions)
        for position, index in enumerate(partitions or ()):
            if index is not None and not 0 <= index < count:
                raise UnknownPartition(
                    f"partition {index} is not one of topic {topic!r}: it has {count}", position
                )
        return view

    async def _append(
        self,
        topic: WritableTopic,
        index: int,
        records: Sequence[NewRecord],
        now_ms: int,
        turn: WriterTurn | None = None,
    ) -> list[Published]:
        batch = encode_records(records, now_ms=now_ms)
        continued = CONTINUED.get()
        stories = None if continued is None else list(continued)
        request = AppendBatch(topic, index, batch, stories, turn)
        done = await self._calls.ask(APPEND, topic_partition(topic, index), request)
        if done.traced is not None:
            self._tracing.known(done.traced)
        return published(records, index, done.appended, now_ms)

    async def _append_here(self, request: AppendBatch) -> AppendedBatch:
        CONTINUED.set(request.continued)
        partition = self._find(request.topic, request.index)
        partition.check_enough_in_sync()
        if request.turn is not None:
            self._check_term(request.topic, request.turn)
            partition.sole_writer.admit(request.turn)
        appended = await self._appending.append(partition, request.batch)
        end = appended.last_offset + 1
        await partition.wait_committed(end, PUBLISH_TIMEOUT_MS)
        trace = partition.trace
        traced = None if trace is None else trace.first_traced(appended.base_offset, end)
        return AppendedBatch(appended, traced)

    async def _schedule(
        self,
        topic: WritableTopic,
        index: int,
        records: Sequence[tuple[NewRecord, int]],
        turn: WriterTurn | None,
    ) -> list[ScheduledMessage]:
        request = KeepUntilDue(topic, index, list(records), turn)
        ids = await self._calls.ask(KEEP, topic_partition(topic, index), request)
        return [ScheduledMessage(index, each) for each in ids]

    async def _keep_here(self, request: KeepUntilDue) -> list[DelayedId]:
        if request.turn is not None:
            self._check_term(request.topic, request.turn)
        return await self._delays.schedule(
            request.topic, request.index, request.records, request.turn
        )

    def _check_term(self, topic: str, turn: WriterTurn) -> None:
        """A leader that was elected after the next writer knows of that writer's term."""
        view = self._image().topics.get(topic)
        if view is not None and turn.term < view.partitions[0].leader_epoch:
            raise NotLeader(f"the writer of term {turn.term} of topic {topic!r} was replaced")


async def _outcomes(jobs: Sequence[_Job]) -> dict[int, Outcome]:
    """What each record came to, by its position."""
    outcomes: dict[int, Outcome] = {}
    answers = await asyncio.gather(*(job.work for job in jobs), return_exceptions=True)
    for job, answer in zip(jobs, answers, strict=True):
        if isinstance(answer, GoQueueError):
            outcomes.update(dict.fromkeys(job.positions, answer))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            outcomes.update(zip(job.positions, answer, strict=True))
    return outcomes
