"""Coordinators' answers as Kafka's error codes. Their names are Kafka's, so the map is by name."""

from typing import Final

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.model.errors import (
    GoQueueError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    PartitionOffline,
    ShuttingDown,
)
from goqueue.model.groups.errors import GroupError
from goqueue.model.transactions.errors import TransactionError

_BY_NAME: Final = {code.name: code for code in ErrorCode}


def group_code(error: GroupError) -> ErrorCode:
    return _BY_NAME[error.name.lower()]


def transaction_code(
    error: TransactionError, *, knows_producer_fenced: bool = True, knows_abortable: bool = True
) -> ErrorCode:
    told = error.for_client(
        knows_producer_fenced=knows_producer_fenced, knows_abortable=knows_abortable
    )
    return _BY_NAME[told.name.lower()]


def failure_code(error: GoQueueError) -> ErrorCode:
    """When the coordinator itself cannot be used: clients look for it again and retry."""
    if isinstance(error, NotLeader | PartitionOffline | ShuttingDown):
        return ErrorCode.not_coordinator
    if isinstance(error, NotEnoughReplicas | NotEnoughReplicasAfterAppend):
        return ErrorCode.coordinator_not_available
    return error_code(error)
