"""ElectLeaders (KIP-183, KIP-460): give partitions to the first of their replicas, or to anyone."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.elections import ElectionAnswer, ElectionKind
from goqueue.model.errors import GoQueueError
from goqueue.model.names import TopicPartition, topic_partition
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest

_KINDS: Final[Mapping[int, ElectionKind]] = {0: ElectionKind.PREFERRED, 1: ElectionKind.UNCLEAN}
_CODES: Final[Mapping[ElectionAnswer, ErrorCode]] = {
    ElectionAnswer.ELECTED: ErrorCode.none,
    ElectionAnswer.NOT_NEEDED: ErrorCode.election_not_needed,
    ElectionAnswer.PREFERRED_NOT_AVAILABLE: ErrorCode.preferred_leader_not_available,
    ElectionAnswer.ELIGIBLE_NOT_AVAILABLE: ErrorCode.eligible_leaders_not_available,
    ElectionAnswer.UNKNOWN_PARTITION: ErrorCode.unknown_topic_or_partition,
    ElectionAnswer.CONFLICT: ErrorCode.request_timed_out,
}


async def handle(context: RequestContext, request: "ElectLeadersRequest") -> Message:
    asked = None
    if request.topic_partitions is not None:
        asked = [
            topic_partition(topic.topic, index)
            async for topic in in_slices(request.topic_partitions)
            for index in topic.partitions
        ]
    # Version 0 knows only the first kind.
    number = getattr(request, "election_type", 0)
    kind = _KINDS.get(number)
    if kind is None:
        return _refused(asked, ErrorCode.invalid_request, f"election type {number} is unknown")
    try:
        answers = await context.service.cluster.elect(context.caller, asked, kind)
    except GoQueueError as error:
        return _refused(asked, error_code(error), error.message)
    if asked is None:
        # Of all, those are told where something happened, or should have.
        answers = {p: a for p, a in answers.items() if a is not ElectionAnswer.NOT_NEEDED}
    return {
        "error_code": ErrorCode.none,
        "replica_election_results": _by_topic(
            {place: (_CODES[answer], answer.value) for place, answer in answers.items()}
        ),
    }


def _refused(asked: list[TopicPartition] | None, code: ErrorCode, message: str) -> Message:
    """Version 0 has an error for each partition only."""
    return {
        "error_code": code,
        "replica_election_results": _by_topic(dict.fromkeys(asked or (), (code, message))),
    }


def _by_topic(answers: Mapping[TopicPartition, tuple[ErrorCode, str]]) -> list[Message]:
    topics: dict[str, list[Message]] = {}
    for place, (code, message) in answers.items():
        topics.setdefault(place.topic, []).append(
            {
                "partition_id": place.partition,
                "error_code": code,
                "error_message": None if code is ErrorCode.none else message,
            }
        )
    return [{"topic": topic, "partition_result": parts} for topic, parts in topics.items()]


OPERATION = Operation(
    api_key=43,
    name="ElectLeaders",
    min_version=0,
    max_version=2,
    handle=handle,
    needs=(Need(Resource.CLUSTER, Verb.ALTER),),
)
