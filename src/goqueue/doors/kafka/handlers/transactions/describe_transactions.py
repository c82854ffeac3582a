"""DescribeTransactions: state, producer and partitions of transactions (KIP-664)."""

from itertools import groupby
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.coordinator_errors import failure_code, transaction_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.pace import in_slices
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest


async def handle(context: RequestContext, request: "DescribeTransactionsRequest") -> Message:
    return {
        "transaction_states": [
            await _described(context, transactional_id)
            async for transactional_id in in_slices(dict.fromkeys(request.transactional_ids))
        ]
    }


async def _described(context: RequestContext, transactional_id: str) -> Message:
    try:
        found = await context.service.transactions.describe(context.caller, transactional_id)
        code = transaction_code(found.error)
    except GoQueueError as error:
        return _refused(transactional_id, failure_code(error))
    if code is not ErrorCode.none:
        return _refused(transactional_id, code)
    by_topic = groupby(sorted(found.partitions), key=lambda name: name.topic)
    return {
        "error_code": code,
        "transactional_id": transactional_id,
        "transaction_state": found.state,
        "transaction_timeout": found.timeout_ms,
        "transaction_start_time": found.start_ms,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "topics": [
            {"topic": topic, "partitions": [name.partition for name in names]}
            for topic, names in by_topic
        ],
    }


def _refused(transactional_id: str, code: ErrorCode) -> Message:
    return {
        "error_code": code,
        "transactional_id": transactional_id,
        "transaction_state": "",
        "transaction_timeout": 0,
        "transaction_start_time": 0,
        "producer_id": 0,
        "producer_epoch": 0,
        "topics": (),
    }


OPERATION = Operation(
    api_key=65,
    name="DescribeTransactions",
    min_version=0,
    max_version=0,
    handle=handle,
    names_resources=True,
    needs=(
        Need(
            Resource.TRANSACTIONAL_ID,
            Verb.DESCRIBE,
            names="transactional_ids",
            refused=Refused.EACH,
        ),
        Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.LEFT_OUT),
    ),
    only_reads=True,
)
