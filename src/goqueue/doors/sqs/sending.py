"""SendMessage and SendMessageBatch."""

import asyncio
from collections.abc import Sequence
from typing import Final

from goqueue.doors.sqs.addresses import queue_name
from goqueue.doors.sqs.answers import Batch, Sent, SentEntry
from goqueue.doors.sqs.batches import check_entries, failed
from goqueue.doors.sqs.errors import ErrorKind, SqsError, invalid_value
from goqueue.doors.sqs.fifo_sending import FifoSender, TakenMessage
from goqueue.doors.sqs.new_messages import PreparedMessage, attributes_size, prepare
from goqueue.doors.sqs.refusals import refusal
from goqueue.doors.sqs.requests import SendEntry, SendMessage, SendMessageBatch
from goqueue.doors.sqs.session import Call, Session
from goqueue.model.errors import GoQueueError
from goqueue.model.queues.attributes import MESSAGE_SIZE_MAX_BYTES
from goqueue.model.queues.sqs_queue import SqsQueue

# The sequence number of a stored message on a FIFO queue, else None; or why it was not stored.
_Outcome = tuple[PreparedMessage, TakenMessage | None] | SqsError

_ACTION: Final = "SendMessageBatch"


async def send_message(session: Session, call: Call, request: SendMessage) -> Sent:
    queue = session.service.sqs_queues.for_sending(call.caller, queue_name(request.queue_url))
    [outcome] = await _store(session, call, queue, [prepare(queue, request)])
    if isinstance(outcome, SqsError):
        raise outcome
    message, taken = outcome
    return Sent(
        message_id=message.message_id if taken is None else taken.message_id,
        body_md5=message.body_md5,
        attributes_md5=message.attributes_md5,
        system_attributes_md5=message.system_attributes_md5,
        sequence_number=None if taken is None else taken.sequence_number,
    )


async def send_message_batch(session: Session, call: Call, request: SendMessageBatch) -> Batch:
    queue = session.service.sqs_queues.for_sending(call.caller, queue_name(request.queue_url))
    ids = check_entries(_ACTION, request.entries)
    _check_total_size(request.entries)
    outcomes: dict[int, _Outcome] = {}
    prepared: dict[int, PreparedMessage] = {}
    for position, entry in enumerate(request.entries):
        if queue.is_fifo and entry.message_group_id is None:
            # Of this one the whole batch is refused, with another code than for a single message.
            raise invalid_value("The request must contain the parameter MessageGroupId.")
        try:
            prepared[position] = prepare(queue, entry)
        except SqsError as error:
            outcomes[position] = error
    if prepared:
        stored = await _store(session, call, queue, list(prepared.values()))
        outcomes.update(zip(prepared, stored, strict=True))
    successful: list[SentEntry] = []
    failures = []
    for position, entry_id in enumerate(ids):
        outcome = outcomes[position]
        if isinstance(outcome, SqsError):
            failures.append(failed(entry_id, outcome))
            continue
        message, taken = outcome
        successful.append(
            SentEntry(
                id=entry_id,
                message_id=message.message_id if taken is None else taken.message_id,
                body_md5=message.body_md5,
                attributes_md5=message.attributes_md5,
                system_attributes_md5=message.system_attributes_md5,
                sequence_number=None if taken is None else taken.sequence_number,
            )
        )
    return Batch(successful=successful, failed=failures)


def _check_total_size(entries: Sequence[SendEntry]) -> None:
    size = 0
    for entry in entries:
        size += len((entry.message_body or "").encode())
        if entry.message_attributes:
            size += attributes_size(entry.message_attributes)
    if size > MESSAGE_SIZE_MAX_BYTES:
        raise SqsError(
            ErrorKind.BATCH_REQUEST_TOO_LONG,
            f"Batch requests cannot be longer than {MESSAGE_SIZE_MAX_BYTES} bytes. "
            f"You have sent {size} bytes.",
        )


async def _store(
    session: Session, call: Call, queue: SqsQueue, messages: Sequence[PreparedMessage]
) -> list[_Outcome]:
    """Each message by itself is stored, or refused."""
    if queue.is_fifo:
        return await _store_once(session, call, queue, messages)
    errors = await _publish(session, call, queue, [(message, None) for message in messages])
    return [
        (message, None) if error is None else refusal(error)
        for message, error in zip(messages, errors, strict=True)
    ]


async def _publish(
    session: Session,
    call: Call,
    queue: SqsQueue,
    messages: Sequence[tuple[PreparedMessage, str | None]],
) -> list[GoQueueError | None]:
    """Publish messages with their sequence numbers; why each was not stored, or None."""
    publishing = session.service.publishing
    sent_ms = publishing.now_ms()
    records = [message.record(sent_ms, number) for message, number in messages]
    due: list[int | None] | None = None
    if any(message.delay_seconds for message, _ in messages):
        due = [sent_ms + message.delay_seconds * 1000 for message, _ in messages]
    outcomes = await publishing.publish(call.caller, queue.name, records, due)
    return [each if isinstance(each, GoQueueError) else None for each in outcomes]


async def _store_once(
    session: Session, call: Call, queue: SqsQueue, messages: Sequence[PreparedMessage]
) -> list[_Outcome]:
    sender = session.fifo_sender(queue)
    await sender.load(queue)
    outcomes: dict[int, _Outcome] = {}
    fresh: dict[str | None, list[tuple[PreparedMessage, TakenMessage]]] = {}
    waiting: dict[int, TakenMessage] = {}
    for position, message in enumerate(messages):
        try:
            taken, is_fresh = sender.take(queue, message)
        except SqsError as error:
            outcomes[position] = error
            continue
        outcomes[position] = (message, taken)
        waiting[position] = taken
        if is_fresh:
            fresh.setdefault(message.group_id, []).append((message, taken))
    stored = {position: taken.stored for position, taken in waiting.items()}
    # Group by group, each in one batch: what is stored and what is not is then known.
    await asyncio.gather(
        *(_store_group(session, call, queue, sender, group) for group in fresh.values())
    )
    for position, future in stored.items():
        if future is None:
            continue
        try:
            await asyncio.shield(future)
        except Exception as error:
            outcomes[position] = refusal(error)
    return [outcomes[position] for position in range(len(messages))]


async def _store_group(
    session: Session,
    call: Call,
    queue: SqsQueue,
    sender: FifoSender,
    group: Sequence[tuple[PreparedMessage, TakenMessage]],
) -> None:
    numbered = [(message, taken.sequence_number) for message, taken in group]
    ended = SqsError(
        ErrorKind.SERVICE_UNAVAILABLE, "The request ended before the message was stored."
    )
    errors: Sequence[Exception | None] = [ended] * len(group)
    try:
        errors = await _publish(session, call, queue, numbered)
    except Exception as error:
        errors = [error] * len(group)
    finally:
        for (message, taken), failure in zip(group, errors, strict=True):
            sender.settle(queue, message, taken, failure)
