"""OffsetCommit: where a group is in its partitions."""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from goqueue.doors.kafka.committed_offsets import commit_answer, offsets_to_commit
from goqueue.doors.kafka.coordinator_errors import failure_code, group_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.messages import OffsetCommit
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.offset_commit.v10.request import OffsetCommitRequest

_MILLISECOND: Final = timedelta(milliseconds=1)
_NO_RETENTION: Final = timedelta(milliseconds=-1)


async def handle(context: RequestContext, request: "OffsetCommitRequest") -> Message:
    offsets = offsets_to_commit(context, request.topics)
    # Versions 2 to 4 only.
    retention = getattr(request, "retention_time", _NO_RETENTION)
    commit = OffsetCommit(
        group_id=request.group_id,
        offsets=offsets,
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_ms=retention // _MILLISECOND,
        knows_member_epochs=context.version >= 9,
    )
    try:
        result = await context.service.groups.commit(context.caller, commit)
        codes = {(p.topic, p.partition): group_code(p.error) for p in result.partitions}
    except GoQueueError as error:
        codes = dict.fromkeys(((o.topic, o.partition) for o in offsets), failure_code(error))
    return commit_answer(context, request.topics, codes)


OPERATION = Operation(
    api_key=8,
    name="OffsetCommit",
    min_version=2,
    max_version=10,
    handle=handle,
    needs=(
        Need(Resource.GROUP, Verb.READ, names="group_id"),
        Need(Resource.TOPIC, Verb.READ, names="topics.name, topics.topic_id", refused=Refused.EACH),
    ),
)
