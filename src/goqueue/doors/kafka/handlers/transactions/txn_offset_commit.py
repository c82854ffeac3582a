"""TxnOffsetCommit: offsets that count once the producer's transaction commits."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from goqueue.doors.kafka.committed_offsets import (
    TopicAndPartition,
    commit_answer,
    offsets_to_commit,
)
from goqueue.doors.kafka.coordinator_errors import failure_code, group_code, transaction_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.groups.messages import TxnOffsetCommit
from goqueue.model.rights import Resource, Verb
from goqueue.model.transactions.refusals import TransactionRefused
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest

# From here on the client leaves it to us to add the group to the transaction (KIP-890).
_FIRST_VERSION_WITHOUT_ADD_OFFSETS: Final = 5
_FIRST_VERSION_WITH_ABORTABLE: Final = 4


async def handle(context: RequestContext, request: "TxnOffsetCommitRequest") -> Message:
    offsets = offsets_to_commit(context, request.topics)
    commit = TxnOffsetCommit(
        group_id=request.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        offsets=offsets,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
    )
    places = [(offset.topic, offset.partition) for offset in offsets]
    try:
        result = await context.service.transactions.commit_offsets(
            context.caller,
            request.transactional_id,
            commit,
            adds_offsets=context.version >= _FIRST_VERSION_WITHOUT_ADD_OFFSETS,
        )
        codes = {(p.topic, p.partition): group_code(p.error) for p in result.partitions}
    except TransactionRefused as refused:
        code = transaction_code(
            refused.error, knows_abortable=context.version >= _FIRST_VERSION_WITH_ABORTABLE
        )
        # As Kafka has it, a partition that is not there is unknown whoever asks.
        codes = dict.fromkeys(_existing(context, places), code)
    except GoQueueError as error:
        codes = dict.fromkeys(places, failure_code(error))
    return commit_answer(context, request.topics, codes)


def _existing(
    context: RequestContext, places: Iterable[TopicAndPartition]
) -> Iterator[TopicAndPartition]:
    views = context.service.topics.views(context.caller)
    counts = {str(view.name): len(view.partitions) for view in views}
    for topic, index in places:
        if 0 <= index < counts.get(topic, 0):
            yield topic, index


OPERATION = Operation(
    api_key=28,
    name="TxnOffsetCommit",
    min_version=0,
    max_version=5,
    handle=handle,
    names_resources=True,
    needs=(
        Need(Resource.TRANSACTIONAL_ID, Verb.WRITE, names="transactional_id", refused=Refused.EACH),
        Need(Resource.GROUP, Verb.READ, names="group_id", refused=Refused.EACH),
        Need(Resource.TOPIC, Verb.READ, names="topics.name", refused=Refused.EACH),
    ),
)
