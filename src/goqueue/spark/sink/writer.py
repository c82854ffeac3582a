"""Spark's batch and streaming writers.

Exactly once: each task attempt writes under a transaction of its own, all of one group; the driver
commits the group with the number of the batch, in one decision of the broker. A batch that is run
again is recognised by its number; attempts that nobody committed are aborted with the decision, or
by their time-out.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from goqueue.client.log_writer import FIRST_CONTACT_TIMEOUT_MS, LogWriter, ProducerIdentity
from goqueue.client.transaction_group import TransactionGroup
from goqueue.model.errors import GoQueueError
from goqueue.model.transactions.group_names import member_id
from goqueue.spark.option_names import InvalidOption
from goqueue.spark.plain_errors import plain_errors
from goqueue.spark.sink.options import (
    AT_LEAST_ONCE,
    WriterOptions,
    parse_options,
    query_group,
    write_group,
)
from goqueue.spark.sink.schema import check_schema
from goqueue.spark.sink.signs_of_life import signs_of_life

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
# Nobody can come back to a write without an id of the user's, but for a lost answer.
_ANONYMOUS_KEEP_MS: Final = 24 * 3_600_000


@dataclass
class WrittenPart(WriterCommitMessage):
    """What a task hands to the driver."""

    row_count: int
    group_id: str | None = None
    # None if nothing is open: no rows, or no transactions, or written by an earlier run.
    member: ProducerIdentity | None = None


def batch_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> "GoQueueBatchWriter":
    parsed = _parse(options, schema, overwrite=overwrite, is_stream=False)
    if parsed.topic is not None:
        # Before any task starts: is the broker there, and does it have or make the topic?
        probe = LogWriter(parsed.bootstrap_servers, delivery_timeout_ms=1, security=parsed.security)
        with closing(probe):
            probe.topic(parsed.topic)
    return GoQueueBatchWriter(parsed)


def stream_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> "GoQueueStreamWriter":
    return GoQueueStreamWriter(_parse(options, schema, overwrite=overwrite, is_stream=True))


def _parse(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool, is_stream: bool
) -> WriterOptions:
    if overwrite:
        mode = "outputMode('append') or 'update'" if is_stream else "mode('append')"
        raise InvalidOption(f"a topic cannot be overwritten; use {mode}")
    parsed = parse_options(options, is_stream=is_stream)
    check_schema(schema, has_topic=parsed.topic is not None)
    return parsed


@plain_errors
class GoQueueBatchWriter(DataSourceArrowWriter):
    """Made once on the driver; tasks and the end of the write get copies of it."""

    def __init__(self, options: WriterOptions) -> None:
        self._options = options
        self._group_id = write_group(options.transaction_id)
        self._sequence = options.transaction_sequence
        # A second write under the same id and number need not be tried.
        self._was_written = options.transaction_id is not None and _is_committed(
            options, self._group_id, self._sequence
        )

    def write(self, iterator: Iterator[Any]) -> WrittenPart:
        if self._was_written:
            return WrittenPart(row_count=0, group_id=self._group_id)
        return _write(iterator, self._options, self._group_id)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if not self._options.is_exactly_once or self._was_written:
            return
        _group(self._options, self._group_id).commit(
            self._sequence, _members(messages), close_ms=self._close_ms
        )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        if self._options.is_exactly_once and not self._was_written:
            _group(self._options, self._group_id).abort(self._sequence, close_ms=self._close_ms)

    @property
    def _close_ms(self) -> int | None:
        """Nobody writes under an unnamed id again, but tasks may still run when one has failed."""
        return None if self._options.transaction_id is not None else _ANONYMOUS_KEEP_MS


@plain_errors
class GoQueueStreamWriter(DataSourceStreamArrowWriter):
    """Made anew for every batch and every commit: what it must know comes with the messages."""

    def __init__(self, options: WriterOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WrittenPart:
        if not self._options.is_exactly_once:
            return _write(iterator, self._options, None)
        group_id, batch_id = _batch_of(_task())
        if _is_committed(self._options, group_id, batch_id):
            return WrittenPart(row_count=0, group_id=group_id)
        return _write(iterator, self._options, group_id)

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        for group_id in _groups(messages):
            _group(self._options, group_id).commit(batchId, _members(messages))

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        """Tasks that failed aborted for themselves; here are those that did not."""
        for group_id in _groups(messages):
            _group(self._options, group_id).abort(batchId, _members(messages))


def _write(
    batches: "Iterator[RecordBatch]", options: WriterOptions, group_id: str | None
) -> WrittenPart:
    # Compiled code and Arrow are needed where rows are, not on the driver.
    from goqueue.spark.sink.task import TaskWriter

    task = _task()
    is_member = options.is_exactly_once and group_id is not None
    transactional_id = None
    if is_member and group_id is not None:
        # Numbers that come back with every batch: so a query needs no more producer ids than tasks.
        transactional_id = member_id(group_id, f"{task.partitionId()}.{task.attemptNumber()}")
    opened = LogWriter(
        options.bootstrap_servers,
        transactional_id=transactional_id,
        transaction_timeout_ms=options.transaction_timeout_ms,
        delivery_timeout_ms=options.delivery_timeout_ms,
        security=options.security,
    )
    alive: AbstractContextManager[None] = nullcontext()
    if is_member and group_id is not None:
        alive = signs_of_life(_group(options, group_id), options.transaction_timeout_ms)
    with closing(opened) as writer, alive:
        part = TaskWriter(writer, options, task=task.partitionId())
        try:
            part.write(batches)
        except BaseException:
            with suppress(GoQueueError):
                writer.abort()
            raise
        return WrittenPart(part.row_count, group_id if is_member else None, writer.identity)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark calls write in tasks"
    return task


def _batch_of(task: TaskContext) -> tuple[str, int]:
    """The group of the query, and the number of its batch."""
    query_id, batch_id = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
    if not query_id or not batch_id:
        # Any other number could be that of a batch that is committed: its rows would be left out.
        raise InvalidOption(
            "Spark does not tell the query and the number of its batch, by which a batch is known "
            f"that is run again; write with delivery.guarantee={AT_LEAST_ONCE}"
        )
    return query_group(query_id), int(batch_id)


def _group(
    options: WriterOptions, group_id: str, *, timeout_ms: int | None = None
) -> TransactionGroup:
    return TransactionGroup(
        group_id,
        bootstrap_servers=options.bootstrap_servers,
        http_url=options.http_url,
        delivery_timeout_ms=timeout_ms or options.delivery_timeout_ms,
        security=options.security,
    )


def _is_committed(options: WriterOptions, group_id: str, sequence: int) -> bool:
    """Asked before anything is written, so a broker that is not there is reported soon."""
    timeout_ms = min(options.delivery_timeout_ms, FIRST_CONTACT_TIMEOUT_MS)
    return _group(options, group_id, timeout_ms=timeout_ms).is_committed(sequence)


def _parts(messages: Sequence[WriterCommitMessage | None]) -> Iterator[WrittenPart]:
    """Of tasks that did not fail."""
    for message in messages:
        if message is not None:
            assert isinstance(message, WrittenPart)
            yield message


def _groups(messages: Sequence[WriterCommitMessage | None]) -> set[str]:
    return {part.group_id for part in _parts(messages) if part.group_id is not None}


def _members(messages: Sequence[WriterCommitMessage | None]) -> list[ProducerIdentity]:
    return [part.member for part in _parts(messages) if part.member is not None]
