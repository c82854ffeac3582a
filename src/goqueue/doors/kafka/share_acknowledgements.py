"""Acknowledgements as ShareFetch and ShareAcknowledge carry them: checked, sorted, applied."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import RequestContext
from goqueue.model.errors import GoQueueError
from goqueue.model.offsets import OffsetRange
from goqueue.model.queues.messages import AckAction, Acknowledgement
from goqueue.model.queues.settling import Settled
from goqueue.model.queues.share import ShareMember, SharePart

# Kafka's numbers.
_ACTIONS: Final = (
    AckAction.GAP,
    AckAction.ACCEPT,
    AckAction.RELEASE,
    AckAction.REJECT,
    AckAction.RENEW,
)
_RENEW: Final = _ACTIONS.index(AckAction.RENEW)
FIRST_VERSION_WITH_RENEW: Final = 2

_BY_NAME: Final = {code.name: code for code in ErrorCode}

Acknowledged = tuple[ErrorCode, str | None]
FINE: Final[Acknowledged] = (ErrorCode.none, None)


def requested(topics: Sequence[Any]) -> dict[SharePart, Sequence[Any]]:
    """The acknowledgement batches of a request by partition, also where there are none."""
    return {
        SharePart(topic.topic_id, part.partition_index): part.acknowledgement_batches
        for topic in topics
        if topic.topic_id is not None
        for part in topic.partitions
    }


async def acknowledge(
    context: RequestContext,
    member: ShareMember,
    batches_of: Mapping[SharePart, Sequence[Any]],
    *,
    may_renew: bool,
) -> dict[SharePart, Acknowledged]:
    """What became of each partition's acknowledgements; those without any are left out."""
    most = _RENEW if context.version >= FIRST_VERSION_WITH_RENEW else _RENEW - 1
    answers: dict[SharePart, Acknowledged] = {}
    given: dict[SharePart, Sequence[Acknowledgement]] = {}
    for part, batches in batches_of.items():
        if batches:
            problem = _problem(batches, most, may_renew)
            answers[part] = FINE if problem is None else (ErrorCode.invalid_request, problem)
            if problem is None:
                given[part] = list(_items(batches))
    if given:
        said = await context.service.share_groups.acknowledge(context.caller, member, given)
        answers.update((part, _answer(each)) for part, each in said.items())
    return answers


def _answer(settled: Settled) -> Acknowledged:
    if isinstance(settled, GoQueueError):
        return error_code(settled), settled.message
    code = _BY_NAME[settled.kafka_name.lower()]
    return code, None if code is ErrorCode.none else settled.name.lower().replace("_", " ")


def _problem(batches: Sequence[Any], most: int, may_renew: bool) -> str | None:
    previous_last = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last:
            return f"first offset {first} is above the last, {last}"
        if first <= previous_last:
            return f"offset {first} follows on {previous_last}; batches must be in order"
        if len(types) != 1 and len(types) != last - first + 1:
            return f"{len(types)} types for {last - first + 1} offsets; give one, or one for each"
        for number in set(types):
            if not 0 <= number <= most:
                return f"acknowledge type {number} is outside 0 to {most}"
            if number == _RENEW and not may_renew:
                return "renewing is not allowed here, or the request does not say that it renews"
        previous_last = last
    return None


def _items(batches: Sequence[Any]) -> Iterator[Acknowledgement]:
    """Neighbours of the same type in one: what is acknowledged one by one costs no more."""
    for batch in batches:
        types = batch.acknowledge_types
        if len(types) == 1 or types.count(types[0]) == len(types):
            offsets = OffsetRange(batch.first_offset, batch.last_offset + 1)
            yield Acknowledgement(offsets=offsets, action=_ACTIONS[types[0]])
            continue
        start = batch.first_offset
        for number, run in groupby(types):
            end = start + sum(1 for _ in run)
            yield Acknowledgement(offsets=OffsetRange(start, end), action=_ACTIONS[number])
            start = end
