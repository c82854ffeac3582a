"""StartMessageMoveTask, ListMessageMoveTasks, CancelMessageMoveTask."""

import base64
from typing import Final

import msgspec

from goqueue.doors.sqs.answers import MovedSoFar, MoveTasks, TaskHandle
from goqueue.doors.sqs.answers import MoveTask as ListedTask
from goqueue.doors.sqs.call import Call
from goqueue.doors.sqs.errors import ErrorKind, SqsError, invalid_parameter, invalid_value, missing
from goqueue.doors.sqs.requests import CancelMoveTask, ListMoveTasks, StartMoveTask
from goqueue.model.errors import (
    GoQueueError,
    InvalidRecord,
    RecordTooLarge,
    TopicAccessDenied,
    UnknownTopic,
)
from goqueue.model.queues.arns import name_in_arn
from goqueue.model.queues.moves import (
    MoveStatus,
    MoveTask,
    NewMove,
    UnknownMoveDestination,
    UnknownMoveSource,
    UnknownOrigin,
)
from goqueue.service.broker_service import BrokerService

# API reference, StartMessageMoveTask: messages per second.
RATE_MAX: Final = 500
# API reference, ListMessageMoveTasks.
LISTED_MAX: Final = 10

# Why tasks failed, by the code of the broker's error; any other made the queue unavailable.
_FAILURES: Final = {
    UnknownTopic.code: ErrorKind.QUEUE_DOES_NOT_EXIST,
    # Of whoever started it, whose rights have changed since.
    TopicAccessDenied.code: ErrorKind.ACCESS_DENIED,
    UnknownOrigin.code: ErrorKind.UNSUPPORTED_OPERATION,
    InvalidRecord.code: ErrorKind.INVALID_PARAMETER_VALUE,
    RecordTooLarge.code: ErrorKind.INVALID_PARAMETER_VALUE,
    GoQueueError.code: ErrorKind.INTERNAL_FAILURE,
}


async def start_message_move_task(
    service: BrokerService, call: Call, request: StartMoveTask
) -> TaskHandle:
    rate = request.max_number_of_messages_per_second
    if rate is not None and not 1 <= rate <= RATE_MAX:
        raise invalid_parameter(
            "MaxNumberOfMessagesPerSecond", rate, f"Must be between 1 and {RATE_MAX}."
        )
    destination = None
    if request.destination_arn:
        destination = _name("DestinationArn", request.destination_arn)
    new = NewMove(
        source=_name("SourceArn", request.source_arn),
        source_arn=request.source_arn or "",
        destination=destination,
        destination_arn=request.destination_arn,
        rate=rate,
    )
    try:
        task = await service.moves.start(call.caller, new)
    except UnknownMoveSource:
        raise _not_there("SourceArn") from None
    except UnknownMoveDestination:
        raise _not_there("DestinationArn") from None
    return TaskHandle(task_handle=_handle(task))


async def list_message_move_tasks(
    service: BrokerService, call: Call, request: ListMoveTasks
) -> MoveTasks:
    count = 1 if request.max_results is None else request.max_results
    if not 1 <= count <= LISTED_MAX:
        raise invalid_parameter("MaxResults", count, f"Must be between 1 and {LISTED_MAX}.")
    source = _name("SourceArn", request.source_arn)
    try:
        tasks = await service.moves.list_tasks(call.caller, source)
    except UnknownMoveSource:
        raise _not_there("SourceArn") from None
    return MoveTasks(results=[_listed(task) for task in tasks[:count]])


async def cancel_message_move_task(
    service: BrokerService, call: Call, request: CancelMoveTask
) -> MovedSoFar:
    if not request.task_handle:
        raise missing("TaskHandle")
    try:
        task_id, arn = msgspec.json.decode(
            base64.b64decode(request.task_handle, validate=True), type=tuple[str, str]
        )
    except (ValueError, msgspec.MsgspecError):
        raise invalid_value("Value for parameter TaskHandle is invalid.") from None
    source = _name("SourceArn", arn)
    try:
        moved = await service.moves.cancel(call.caller, source, task_id)
    except UnknownMoveSource:
        raise _not_there("SourceArn") from None
    return MovedSoFar(approximate_number_of_messages_moved=moved)


def _name(parameter: str, arn: str | None) -> str:
    if not arn:
        raise missing(parameter)
    name = name_in_arn(arn)
    if name is None:
        raise invalid_value(
            f"You must use this format to specify the {parameter}: "
            "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
        )
    return name


def _not_there(parameter: str) -> SqsError:
    return SqsError(
        ErrorKind.RESOURCE_NOT_FOUND,
        f"The resource that you specified for the {parameter} parameter doesn't exist.",
    )


def _handle(task: MoveTask) -> str:
    return base64.b64encode(msgspec.json.encode((task.id, task.source_arn))).decode()


def _listed(task: MoveTask) -> ListedTask:
    unset = msgspec.UNSET
    return ListedTask(
        task_handle=_handle(task) if task.status is MoveStatus.RUNNING else unset,
        status=task.status.value,
        source_arn=task.source_arn,
        destination_arn=task.destination_arn or unset,
        max_number_of_messages_per_second=task.rate or unset,
        approximate_number_of_messages_moved=task.moved,
        approximate_number_of_messages_to_move=task.to_move,
        failure_reason=_failure(task.failure) if task.failure else unset,
        started_timestamp=task.started_ms,
    )


def _failure(code: str) -> str:
    """Tasks of older data folders have the answer itself, which begins with a capital."""
    if code[0].isupper():
        return code
    return _FAILURES.get(code, ErrorKind.SERVICE_UNAVAILABLE).query_code
