"""Produce: one record batch per partition, appended in the order the requests came."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import transaction_code
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.large_requests import LARGE_ELEMENTS
from goqueue.doors.kafka.leader_hints import LeaderHints
from goqueue.doors.kafka.operation import CloseConnection, Operation, RequestContext
from goqueue.doors.kafka.produced_batch import check_one_batch
from goqueue.doors.kafka.rows import Rows
from goqueue.doors.kafka.wire.writing import Message
from goqueue.eager import begin
from goqueue.model.errors import (
    GoQueueError,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopicName,
    NotLeader,
    PolicyViolation,
    UnknownTopicId,
)
from goqueue.model.log import Produced
from goqueue.model.rights import Resource, Verb
from goqueue.model.transactions.errors import TransactionError
from goqueue.model.transactions.refusals import TransactionRefused
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.produce.v13.request import (
        PartitionProduceData,
        ProduceRequest,
        TopicProduceData,
    )

FIRST_VERSION_WITH_TOPIC_ID: Final = 13
# Transaction version 2: partitions join the transaction with their first batch (KIP-890).
FIRST_VERSION_WITH_EPOCH_BUMP: Final = 12
FIRST_VERSION_WITH_ABORTABLE: Final = 11
# A batch may have a million records, and say the same of each.
NAMED_RECORDS_MAX: Final = 1_000
_MILLISECOND: Final = timedelta(milliseconds=1)

_Outcome = Produced | GoQueueError


async def handle(context: RequestContext, request: "ProduceRequest") -> Message | None:
    version = context.version
    # The name stands in the request up to version 12, the id from then on (KIP-516).
    named_by = "topic_id" if version >= FIRST_VERSION_WITH_TOPIC_ID else "name"
    timeout_ms = max(0, request.timeout // _MILLISECOND)
    if context.quota is not None:
        context.quota.produced(context.size_bytes)
    topics = request.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        (part,) = topics[0].partition_data
        named = getattr(topics[0], named_by)
        outcomes = [await _append(context, request, named, part, timeout_ms)]
    else:
        outcomes = await _append_all(context, request, named_by, timeout_ms)
    if request.acks == 0:
        _close_on_error(outcomes)
        return None
    remaining = iter(outcomes)
    answer: dict[str, Any] = {
        "responses": [
            {
                named_by: getattr(topic, named_by),
                "partition_responses": _answers(topic.partition_data, remaining, version),
            }
            for topic in topics
        ]
    }
    if any(isinstance(outcome, NotLeader) for outcome in outcomes):
        _name_leaders(context, request, answer, outcomes)
    return answer


def _name_leaders(
    context: RequestContext,
    request: "ProduceRequest",
    answer: dict[str, Any],
    outcomes: Iterable[_Outcome],
) -> None:
    hints = LeaderHints(context)
    remaining = iter(outcomes)
    for topic, answered in zip(request.topic_data, answer["responses"], strict=True):
        for part, said in zip(topic.partition_data, answered["partition_responses"], strict=True):
            outcome = next(remaining)
            if isinstance(outcome, NotLeader):
                hint = hints.of(_topic_name(context, topic), part.index, outcome)
                if hint is not None:
                    said["current_leader"] = hint
    answer["node_endpoints"] = hints.endpoints()


def _topic_name(context: RequestContext, topic: "TopicProduceData") -> str:
    if context.version < FIRST_VERSION_WITH_TOPIC_ID:
        return str(getattr(topic, "name", ""))
    assert topic.topic_id is not None, "its leader is known to be elsewhere"
    return context.service.topics.name_of(context.caller, topic.topic_id, Verb.WRITE)


async def _append_all(
    context: RequestContext, request: "ProduceRequest", named_by: str, timeout_ms: int
) -> list[_Outcome]:
    """All are begun before one is waited for: appends happen in the order of the requests."""
    appends = (
        _append(context, request, getattr(topic, named_by), part, timeout_ms)
        for topic in request.topic_data
        for part in topic.partition_data
    )
    if sum(len(topic.partition_data) for topic in request.topic_data) <= LARGE_ELEMENTS:
        return await _all([begin(append) for append in appends])
    return await _all([begin(append) async for append in in_slices(appends)])


async def _all(begun: Iterable[_Outcome | asyncio.Task[_Outcome]]) -> list[_Outcome]:
    return [await one if isinstance(one, asyncio.Task) else one for one in begun]


async def _append(
    context: RequestContext,
    request: "ProduceRequest",
    named: str | UUID | None,
    part: "PartitionProduceData",
    timeout_ms: int,
) -> _Outcome:
    acks = request.acks
    try:
        if acks not in (-1, 0, 1):
            raise InvalidRequiredAcks(f"acks is {acks}; it must be -1, 0 or 1")
        records = check_one_batch(part.records, context.version)
        name = named
        if not isinstance(name, str):
            if name is None:
                raise UnknownTopicId("topic id is empty")
            name = context.service.topics.name_of(context.caller, name, Verb.WRITE)
        return await context.service.log.produce(
            context.caller,
            name,
            part.index,
            records,
            acks=acks,
            timeout_ms=timeout_ms,
            transactional_id=request.transactional_id,
            bumps_epoch=context.version >= FIRST_VERSION_WITH_EPOCH_BUMP,
            connection=context.connection,
        )
    except PolicyViolation as error:
        # Kafka's name for a topic that only the broker writes.
        return InvalidTopicName(error.message)
    except GoQueueError as error:
        return error


def _close_on_error(outcomes: Sequence[_Outcome]) -> None:
    """With acks=0 the end of the connection is the only way to tell of an error."""
    for outcome in outcomes:
        if isinstance(outcome, GoQueueError):
            raise CloseConnection(f"acks=0, and {outcome.message}")


def _refusal_code(outcome: GoQueueError, version: int) -> ErrorCode:
    if not isinstance(outcome, TransactionRefused):
        return error_code(outcome)
    refused = outcome.error
    if refused is TransactionError.COORDINATOR_LOAD_IN_PROGRESS or (
        refused is TransactionError.CONCURRENT_TRANSACTIONS
        and version < FIRST_VERSION_WITH_EPOCH_BUMP
    ):
        # Produce has no better word for "try again soon".
        return ErrorCode.not_enough_replicas
    # Producers learn of their fencing from the transaction APIs; here it is the old code.
    return transaction_code(
        refused,
        knows_producer_fenced=False,
        knows_abortable=version >= FIRST_VERSION_WITH_ABORTABLE,
    )


def _answer(index: int, outcome: _Outcome, version: int) -> dict[str, Any]:
    if isinstance(outcome, Produced):
        return {
            "index": index,
            "error_code": ErrorCode.none,
            "base_offset": outcome.base_offset,
            "log_append_time": outcome.append_time_ms,
            "log_start_offset": outcome.log_start_offset,
            "record_errors": (),
        }
    at_fault = outcome.record_errors if isinstance(outcome, InvalidRecord) else {}
    return {
        "index": index,
        "error_code": _refusal_code(outcome, version),
        "base_offset": -1,
        "record_errors": [
            {"batch_index": place, "batch_index_error_message": message}
            for place, message in islice(at_fault.items(), NAMED_RECORDS_MAX)
        ],
        "error_message": outcome.message,
    }


def _answers(
    parts: "Sequence[PartitionProduceData]", remaining: Iterator[_Outcome], version: int
) -> list[Message] | Rows[tuple[int, _Outcome]]:
    if len(parts) <= LARGE_ELEMENTS:
        return [_answer(part.index, next(remaining), version) for part in parts]
    numbered = [(part.index, next(remaining)) for part in parts]
    return Rows(numbered, lambda each: _answer(*each, version))


OPERATION = Operation(
    api_key=0,
    name="Produce",
    min_version=3,
    max_version=13,
    handle=handle,
    needs=(
        Need(
            Resource.TOPIC,
            Verb.WRITE,
            names="topic_data.name, topic_data.topic_id",
            refused=Refused.EACH,
        ),
        Need(
            Resource.TRANSACTIONAL_ID,
            Verb.WRITE,
            names="transactional_id",
            refused=Refused.EACH,
        ),
    ),
    # librdkafka takes a broker without version 0 for one that cannot compress (KAFKA-18659).
    advertised_min_version=0,
    overlaps=True,
    starts_at_once=True,
    answers_with_many=None,
    carries_records=True,
)
