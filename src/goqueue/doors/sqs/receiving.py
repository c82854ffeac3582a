"""ReceiveMessage."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Final

from goqueue.doors.sqs.addresses import ACCOUNT, queue_arn, queue_name
from goqueue.doors.sqs.answers import Message, Messages
from goqueue.doors.sqs.call import Call
from goqueue.doors.sqs.digests import attributes_digest, body_digest
from goqueue.doors.sqs.errors import ErrorKind, SqsError, invalid_parameter
from goqueue.doors.sqs.message_headers import attributes_of, body_of, derived_message_id
from goqueue.doors.sqs.requests import AttributeValue, ReceiveMessage
from goqueue.doors.web.long_poll import hand_back
from goqueue.model.digits import number_in
from goqueue.model.header_names import DEAD_LETTER_COUNT, DEAD_LETTER_TOPIC
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.fifo import derived_number
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.sqs_headers import SystemFacts, system_facts
from goqueue.model.queues.sqs_queue import SQS_GROUP, SqsQueue
from goqueue.model.records import Record
from goqueue.service.broker_service import BrokerService

MESSAGES_MAX: Final = 10
WAIT_MAX_SECONDS: Final = 20
VISIBILITY_MAX_SECONDS: Final = 43_200

_SYSTEM_NAMES: Final = frozenset(
    {
        "SenderId",
        "SentTimestamp",
        "ApproximateReceiveCount",
        "ApproximateFirstReceiveTimestamp",
        "SequenceNumber",
        "MessageDeduplicationId",
        "MessageGroupId",
        "AWSTraceHeader",
        "DeadLetterQueueSourceArn",
    }
)
_NO_NAMES: Final[frozenset[str]] = frozenset()


async def receive_message(service: BrokerService, call: Call, request: ReceiveMessage) -> Messages:
    name = queue_name(request.queue_url)
    queue = service.sqs_queues.for_receiving(call.caller, name)
    limit = _within("MaxNumberOfMessages", request.max_number_of_messages, 1, 1, MESSAGES_MAX)
    wait_s = _within(
        "WaitTimeSeconds", request.wait_time_seconds, queue.wait_seconds, 0, WAIT_MAX_SECONDS
    )
    wanted = _system_names(request)
    lease_ms = None
    if request.visibility_timeout is not None:
        lease_s = _within(
            "VisibilityTimeout", request.visibility_timeout, 0, 0, VISIBILITY_MAX_SECONDS
        )
        # The shortest lease there is, for 0: visible again at once.
        lease_ms = max(lease_s * 1000, 1)
    asked = Receive(
        max_messages=limit,
        lease_ms=lease_ms,
        in_order=queue.is_fifo,
        # An empty answer to a short poll would not say that too much is in flight.
        refuses_when_full=not wait_s,
        remembers=True,
    )
    began = perf_counter()
    found = await service.queues.receive(call.caller, SQS_GROUP, queue.name, asked)
    # A leader that hangs may have taken some of the time.
    wait_ms = int((began + wait_s - perf_counter()) * 1000)
    if not found and wait_ms > 0:
        found = await _wait(service, call, queue, replace(asked, wait_ms=wait_ms))
    names = request.message_attribute_names
    return Messages(messages=[_message(call, queue, each, wanted, names) for each in found])


async def _wait(
    service: BrokerService, call: Call, queue: SqsQueue, asked: Receive
) -> list[Delivery]:
    """A long poll. When nobody waits for the answer any more, nothing is taken."""
    queues = service.queues
    receiving = asyncio.create_task(queues.receive(call.caller, SQS_GROUP, queue.name, asked))
    leaving = asyncio.ensure_future(call.gone())
    is_read = False
    try:
        await asyncio.wait({receiving, leaving}, return_when=asyncio.FIRST_COMPLETED)
        is_read = receiving.done() and (not leaving.done() or call.closing.is_set())
        return receiving.result() if is_read else []
    finally:
        receiving.cancel()
        leaving.cancel()
        if not is_read:
            hand_back(receiving, partial(queues.give_back, SQS_GROUP))


# --- one message --------------------------------------------------------------------------


def _message(
    call: Call,
    queue: SqsQueue,
    delivery: Delivery,
    wanted: frozenset[str],
    names: Sequence[str],
) -> Message:
    record = delivery.record
    facts = system_facts(record.headers)
    body, is_base64 = body_of(record.value)
    attributes: dict[str, AttributeValue] = {}
    if names:
        attributes = _chosen(attributes_of(record, is_base64=is_base64), names)
    system: dict[str, str] = {}
    if wanted:
        system = _system_attributes(call, queue, delivery, facts)
        if wanted is not _SYSTEM_NAMES:
            system = {name: value for name, value in system.items() if name in wanted}
    return Message(
        message_id=facts.message_id
        or derived_message_id(queue.topic.id, delivery.partition, record.offset),
        receipt_handle=str(delivery.receipt),
        body_md5=body_digest(body.encode() if is_base64 else record.value or b""),
        body=body,
        attributes=system,
        attributes_md5=attributes_digest(attributes),
        message_attributes=attributes,
    )


def _system_attributes(
    call: Call, queue: SqsQueue, delivery: Delivery, facts: SystemFacts
) -> dict[str, str]:
    record = delivery.record
    found = {
        "SenderId": ACCOUNT,
        "SentTimestamp": str(facts.sent_ms(record.timestamp_ms)),
        "ApproximateReceiveCount": str(delivery.delivery_count + _received_before(record)),
        "ApproximateFirstReceiveTimestamp": str(delivery.first_received_ms),
    }
    group_id = facts.group_id
    if queue.is_fifo:
        found["SequenceNumber"] = facts.sequence_number or derived_number(
            record.timestamp_ms, record.offset
        )
        if group_id is None:
            # A record of another producer: its key is what orders it.
            group_id = (record.key or b"").decode("utf-8", "replace")
    if group_id is not None:
        found["MessageGroupId"] = group_id
    if facts.deduplication_id is not None:
        found["MessageDeduplicationId"] = facts.deduplication_id
    if facts.trace_header is not None:
        found["AWSTraceHeader"] = facts.trace_header
    source = _dead_letter_source(record)
    if source is not None:
        found["DeadLetterQueueSourceArn"] = queue_arn(call.region, source)
    return found


# Of how often a message was received.
COUNT_DIGITS: Final = 9


def _received_before(record: Record) -> int:
    """How often a dead letter was received where it came from: "across all queues"."""
    for name, value in record.headers:
        # Any producer may write headers: a number that is too long for a count is none.
        if name == DEAD_LETTER_COUNT and value is not None:
            return number_in(value.decode("ascii", "replace"), COUNT_DIGITS) or 0
    return 0


def _dead_letter_source(record: Record) -> str | None:
    for name, value in record.headers:
        if name == DEAD_LETTER_TOPIC and value:
            return value.decode("utf-8", "replace")
    return None


# --- what is asked for --------------------------------------------------------------------


def _within(name: str, given: int | None, default: int, minimum: int, maximum: int) -> int:
    if given is None:
        return default
    if not minimum <= given <= maximum:
        raise invalid_parameter(name, given, _LIMITS[name])
    return given


_LIMITS: Final = {
    "MaxNumberOfMessages": f"Must be between 1 and {MESSAGES_MAX}, if provided.",
    "WaitTimeSeconds": f"Must be >= 0 and <= {WAIT_MAX_SECONDS}, if provided.",
    "VisibilityTimeout": f"Must be between 0 and {VISIBILITY_MAX_SECONDS}, if provided.",
}


def _system_names(request: ReceiveMessage) -> frozenset[str]:
    # The older name of the list, and the newer one.
    names = [*request.attribute_names, *request.message_system_attribute_names]
    if not names:
        return _NO_NAMES
    for name in names:
        if name not in _SYSTEM_NAMES and name != "All":
            raise SqsError(ErrorKind.INVALID_ATTRIBUTE_NAME, f"Unknown Attribute {name}.")
    return _SYSTEM_NAMES if "All" in names else frozenset(names)


def _chosen(
    attributes: dict[str, AttributeValue], names: Sequence[str]
) -> dict[str, AttributeValue]:
    if "All" in names or ".*" in names or "*" in names:
        return attributes
    prefixes = tuple(name[:-2] for name in names if name.endswith(".*"))
    return {
        name: value
        for name, value in attributes.items()
        if name in names or (prefixes and name.startswith(prefixes))
    }
