"""SendMessage and SendMessageBatch."""

from collections.abc import Sequence
from typing import Final

from goqueue.doors.sqs.addresses import queue_name
from goqueue.doors.sqs.answers import Batch, Sent, SentEntry
from goqueue.doors.sqs.batches import check_entries, failed
from goqueue.doors.sqs.call import Call
from goqueue.doors.sqs.errors import ErrorKind, SqsError, invalid_value
from goqueue.doors.sqs.new_messages import (
    PreparedMessage,
    attributes_size,
    no_deduplication_id,
    prepare,
)
from goqueue.doors.sqs.refusals import refusal
from goqueue.doors.sqs.requests import SendEntry, SendMessage, SendMessageBatch
from goqueue.model.errors import GoQueueError
from goqueue.model.queues.attributes import MESSAGE_SIZE_MAX_BYTES
from goqueue.model.queues.fifo import SentOnce
from goqueue.model.queues.sqs_queue import SqsQueue
from goqueue.service.broker_service import BrokerService

# A stored message, of a FIFO queue with what its deduplication id stands for; or why it is not.
_Outcome = tuple[PreparedMessage, SentOnce | None] | SqsError

_ACTION: Final = "SendMessageBatch"


async def send_message(service: BrokerService, call: Call, request: SendMessage) -> Sent:
    queue = service.sqs_queues.for_sending(call.caller, queue_name(request.queue_url))
    [outcome] = await _store(service, call, queue, [prepare(queue, request, call.trace)])
    if isinstance(outcome, SqsError):
        raise outcome
    message, once = outcome
    return Sent(
        message_id=message.message_id if once is None else once.message_id,
        body_md5=message.body_md5,
        attributes_md5=message.attributes_md5,
        system_attributes_md5=message.system_attributes_md5,
        sequence_number=None if once is None else once.sequence_number,
    )


async def send_message_batch(
    service: BrokerService, call: Call, request: SendMessageBatch
) -> Batch:
    queue = service.sqs_queues.for_sending(call.caller, queue_name(request.queue_url))
    ids = check_entries(_ACTION, request.entries)
    _check_total_size(request.entries)
    outcomes: dict[int, _Outcome] = {}
    prepared: dict[int, PreparedMessage] = {}
    for position, entry in enumerate(request.entries):
        if queue.is_fifo:
            _check_fifo_ids(queue, entry)
        try:
            prepared[position] = prepare(queue, entry, call.trace)
        except SqsError as error:
            outcomes[position] = error
    if prepared:
        stored = await _store(service, call, queue, list(prepared.values()))
        outcomes.update(zip(prepared, stored, strict=True))
    successful: list[SentEntry] = []
    failures = []
    for position, entry_id in enumerate(ids):
        outcome = outcomes[position]
        if isinstance(outcome, SqsError):
            failures.append(failed(entry_id, outcome))
            continue
        message, once = outcome
        successful.append(
            SentEntry(
                id=entry_id,
                message_id=message.message_id if once is None else once.message_id,
                body_md5=message.body_md5,
                attributes_md5=message.attributes_md5,
                system_attributes_md5=message.system_attributes_md5,
                sequence_number=None if once is None else once.sequence_number,
            )
        )
    return Batch(successful=successful, failed=failures)


def _check_fifo_ids(queue: SqsQueue, entry: SendEntry) -> None:
    """Of these the whole batch is refused."""
    if entry.message_group_id is None:
        # With another code than for a single message.
        raise invalid_value("The request must contain the parameter MessageGroupId.")
    if entry.message_deduplication_id is None and not queue.is_content_deduplicated:
        raise no_deduplication_id()


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
    service: BrokerService, call: Call, queue: SqsQueue, messages: Sequence[PreparedMessage]
) -> list[_Outcome]:
    """Each message by itself is stored, or refused."""
    if queue.is_fifo:
        return await _store_once(service, call, queue, messages)
    publishing = service.publishing
    sent_ms = publishing.now_ms()
    records = [message.record(sent_ms) for message in messages]
    due: list[int | None] | None = None
    if any(message.delay_seconds for message in messages):
        due = [sent_ms + message.delay_seconds * 1000 for message in messages]
    outcomes = await publishing.publish(call.caller, queue.name, records, due)
    return [
        refusal(outcome) if isinstance(outcome, GoQueueError) else (message, None)
        for message, outcome in zip(messages, outcomes, strict=True)
    ]


async def _store_once(
    service: BrokerService, call: Call, queue: SqsQueue, messages: Sequence[PreparedMessage]
) -> list[_Outcome]:
    fifo = [message.fifo() for message in messages]
    outcomes = await service.fifo.send(call.caller, queue.name, fifo)
    return [
        refusal(outcome) if isinstance(outcome, GoQueueError) else (message, outcome)
        for message, outcome in zip(messages, outcomes, strict=True)
    ]
