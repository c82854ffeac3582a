"""DeleteMessage, ChangeMessageVisibility, and both as batches."""

from collections.abc import Sequence
from typing import Final

from goqueue.doors.sqs.addresses import queue_name
from goqueue.doors.sqs.answers import Batch, Done, DoneEntry
from goqueue.doors.sqs.batches import check_entries, failed
from goqueue.doors.sqs.call import Call
from goqueue.doors.sqs.errors import ErrorKind, SqsError, invalid_parameter, missing
from goqueue.doors.sqs.receiving import VISIBILITY_MAX_SECONDS
from goqueue.doors.sqs.refusals import refusal
from goqueue.doors.sqs.requests import (
    ChangeVisibility,
    ChangeVisibilityBatch,
    DeleteMessage,
    DeleteMessageBatch,
    QueueRequest,
)
from goqueue.model.errors import GoQueueError
from goqueue.model.queues.errors import QueueError
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.receipts import InvalidReceipt, Receipt, parse_receipt
from goqueue.model.queues.settling import Settlement
from goqueue.model.queues.sqs_queue import SQS_GROUP, SqsQueue
from goqueue.service.broker_service import BrokerService


async def delete_message(service: BrokerService, call: Call, request: DeleteMessage) -> Done:
    queue = _queue(service, call, request)
    step = _deletion(queue, request.receipt_handle)
    [error] = await _delete(service, call, queue, [step])
    if error is not None:
        raise error
    return Done()


async def delete_message_batch(
    service: BrokerService, call: Call, request: DeleteMessageBatch
) -> Batch:
    queue = _queue(service, call, request)
    ids = check_entries("DeleteMessageBatch", request.entries)
    steps: list[Settlement | SqsError] = []
    for entry in request.entries:
        try:
            steps.append(_deletion(queue, entry.receipt_handle))
        except SqsError as error:
            steps.append(error)
    good = [step for step in steps if not isinstance(step, SqsError)]
    return _report(ids, steps, await _delete(service, call, queue, good))


async def change_message_visibility(
    service: BrokerService, call: Call, request: ChangeVisibility
) -> Done:
    queue = _queue(service, call, request)
    step = _change(queue, request.receipt_handle, request.visibility_timeout)
    [error] = await _change_visibility(service, call, queue, [step])
    if error is not None:
        raise error
    return Done()


async def change_message_visibility_batch(
    service: BrokerService, call: Call, request: ChangeVisibilityBatch
) -> Batch:
    queue = _queue(service, call, request)
    ids = check_entries("ChangeMessageVisibilityBatch", request.entries)
    steps: list[Settlement | SqsError] = []
    for entry in request.entries:
        try:
            steps.append(_change(queue, entry.receipt_handle, entry.visibility_timeout))
        except SqsError as error:
            steps.append(error)
    good = [step for step in steps if not isinstance(step, SqsError)]
    return _report(ids, steps, await _change_visibility(service, call, queue, good))


def _report(
    ids: Sequence[str], steps: Sequence[Settlement | SqsError], errors: Sequence[SqsError | None]
) -> Batch:
    """`errors` has one place for each step that was good to try."""
    left = iter(errors)
    successful: list[DoneEntry] = []
    failures = []
    for entry_id, step in zip(ids, steps, strict=True):
        error = step if isinstance(step, SqsError) else next(left)
        if error is None:
            successful.append(DoneEntry(id=entry_id))
        else:
            failures.append(failed(entry_id, error))
    return Batch(successful=successful, failed=failures)


def _queue(service: BrokerService, call: Call, request: QueueRequest) -> SqsQueue:
    name = queue_name(request.queue_url)
    return service.sqs_queues.for_receiving(call.caller, name)


# --- receipts -----------------------------------------------------------------------------


def _receipt(queue: SqsQueue, handle: str | None) -> Receipt:
    if not handle:
        raise missing("ReceiptHandle")
    try:
        receipt = parse_receipt(handle)
    except InvalidReceipt:
        raise _not_a_receipt(handle) from None
    if receipt.topic != queue.name or receipt.partition >= len(queue.topic.partitions):
        raise _not_a_receipt(handle)
    return receipt


def _not_a_receipt(handle: str) -> SqsError:
    return SqsError(
        ErrorKind.RECEIPT_HANDLE_IS_INVALID,
        f'The input receipt handle "{handle}" is not a valid receipt handle.',
    )


def _deletion(queue: SqsQueue, handle: str | None) -> Settlement:
    receipt = _receipt(queue, handle)
    return Settlement(receipt, AckAction.ACCEPT)


def _change(queue: SqsQueue, handle: str | None, timeout_s: int | None) -> Settlement:
    receipt = _receipt(queue, handle)
    if timeout_s is None:
        raise missing("VisibilityTimeout")
    if not 0 <= timeout_s <= VISIBILITY_MAX_SECONDS:
        raise invalid_parameter(
            "VisibilityTimeout",
            timeout_s,
            f"VisibilityTimeout must be an integer between 0 and {VISIBILITY_MAX_SECONDS}.",
        )
    if timeout_s == 0:
        return Settlement(receipt, AckAction.RELEASE)
    return Settlement(receipt, AckAction.RENEW, timeout_s * 1000)


# --- settling -----------------------------------------------------------------------------


async def _delete(
    service: BrokerService, call: Call, queue: SqsQueue, steps: Sequence[Settlement]
) -> list[SqsError | None]:
    # The newest receipt of a message deletes it even after its time (see DeleteMessage).
    settled = await service.queues.settle(
        call.caller, SQS_GROUP, steps, outlives_lease=not queue.is_fifo
    )
    return [
        refusal(answer)
        if isinstance(answer, GoQueueError)
        else _deletion_error(queue, step.receipt, answer)
        for step, answer in zip(steps, settled, strict=True)
    ]


def _deletion_error(queue: SqsQueue, receipt: Receipt, answer: QueueError) -> SqsError | None:
    """Deleting is idempotent; on a standard queue also with a receipt that was replaced since."""
    if answer in (QueueError.NONE, QueueError.RECEIPT_SETTLED):
        return None
    if answer in (QueueError.RECEIPT_EXPIRED, QueueError.RECEIPT_REDELIVERED):
        if not queue.is_fifo:
            return None
        return invalid_parameter("ReceiptHandle", receipt, "The receipt handle has expired.")
    return _not_a_receipt(str(receipt))


_UNAVAILABLE: Final = "Message does not exist or is not available for visibility timeout change."


# With a handle of an earlier receive, or after its time, a standard queue answers that all is well
# and does nothing, although the API reference has MessageNotInflight.
_PAST: Final = (QueueError.RECEIPT_EXPIRED, QueueError.RECEIPT_REDELIVERED)


async def _change_visibility(
    service: BrokerService, call: Call, queue: SqsQueue, steps: Sequence[Settlement]
) -> list[SqsError | None]:
    settled = await service.queues.settle(call.caller, SQS_GROUP, steps)
    return [
        refusal(answer)
        if isinstance(answer, GoQueueError)
        else _change_error(queue, step.receipt, answer)
        for step, answer in zip(steps, settled, strict=True)
    ]


def _change_error(queue: SqsQueue, receipt: Receipt, answer: QueueError) -> SqsError | None:
    if answer is QueueError.NONE or (answer in _PAST and not queue.is_fifo):
        return None
    if answer is QueueError.RECEIPT_SETTLED or answer in _PAST:
        return invalid_parameter("ReceiptHandle", receipt, _UNAVAILABLE)
    return _not_a_receipt(str(receipt))
