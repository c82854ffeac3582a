"""StartMessageMoveTask, ListMessageMoveTasks, CancelMessageMoveTask."""

import base64
from typing import Final
from uuid import uuid4

import msgspec

from goqueue.doors.sqs.addresses import name_in_arn
from goqueue.doors.sqs.answers import MovedSoFar, MoveTask, MoveTasks, TaskHandle
from goqueue.doors.sqs.catalogue import GROUP, Queue
from goqueue.doors.sqs.errors import ErrorKind, SqsError, invalid_parameter, invalid_value, missing
from goqueue.doors.sqs.move_tasks import LISTED_MAX, StoredTask
from goqueue.doors.sqs.queue_actions import sources_of
from goqueue.doors.sqs.requests import CancelMoveTask, ListMoveTasks, StartMoveTask
from goqueue.doors.sqs.session import Call, Session

# API reference, StartMessageMoveTask: messages per second.
RATE_MAX: Final = 500


async def start_message_move_task(
    session: Session, _call: Call, request: StartMoveTask
) -> TaskHandle:
    source = _queue_of(session, "SourceArn", request.source_arn)
    if not sources_of(session, source.name):
        raise invalid_value("Source queue must be configured as a Dead Letter Queue.")
    destination = None
    if request.destination_arn:
        destination = _queue_of(session, "DestinationArn", request.destination_arn)
    rate = request.max_number_of_messages_per_second
    if rate is not None and not 1 <= rate <= RATE_MAX:
        raise invalid_parameter(
            "MaxNumberOfMessagesPerSecond", rate, f"Must be between 1 and {RATE_MAX}."
        )
    await session.catalogue.open(source)
    described = await session.broker.queues.describe(GROUP, source.name)
    task = StoredTask(
        id=uuid4().hex,
        source=source.name,
        source_arn=request.source_arn or "",
        destination=destination.name if destination else None,
        destination_arn=request.destination_arn,
        rate=rate,
        started_ms=session.broker.clock_ms(),
        to_move=sum(part.ready + part.waiting for part in described),
    )
    await session.moves.start(task)
    return TaskHandle(task_handle=_handle(task))


async def list_message_move_tasks(
    session: Session, _call: Call, request: ListMoveTasks
) -> MoveTasks:
    source = _queue_of(session, "SourceArn", request.source_arn)
    count = 1 if request.max_results is None else request.max_results
    if not 1 <= count <= LISTED_MAX:
        raise invalid_parameter("MaxResults", count, f"Must be between 1 and {LISTED_MAX}.")
    return MoveTasks(
        results=[_listed(task) for task in session.moves.of_source(source.name)[:count]]
    )


async def cancel_message_move_task(
    session: Session, _call: Call, request: CancelMoveTask
) -> MovedSoFar:
    if not request.task_handle:
        raise missing("TaskHandle")
    try:
        task_id, arn = msgspec.json.decode(
            base64.b64decode(request.task_handle, validate=True), type=tuple[str, str]
        )
    except (ValueError, msgspec.MsgspecError):
        raise invalid_value("Value for parameter TaskHandle is invalid.") from None
    _queue_of(session, "SourceArn", arn)
    task = session.moves.find(task_id)
    if task is None:
        raise SqsError(ErrorKind.RESOURCE_NOT_FOUND, "Task does not exist.")
    if task.status != "RUNNING":
        raise SqsError(ErrorKind.UNSUPPORTED_OPERATION, "Only active tasks can be cancelled.")
    moved = await session.moves.cancel(task_id)
    return MovedSoFar(approximate_number_of_messages_moved=moved)


def _queue_of(session: Session, parameter: str, arn: str | None) -> Queue:
    if not arn:
        raise missing(parameter)
    name = name_in_arn(arn)
    if name is None:
        raise invalid_value(
            f"You must use this format to specify the {parameter}: "
            "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
        )
    try:
        return session.catalogue.find(name)
    except SqsError:
        raise SqsError(
            ErrorKind.RESOURCE_NOT_FOUND,
            f"The resource that you specified for the {parameter} parameter doesn't exist.",
        ) from None


def _handle(task: StoredTask) -> str:
    return base64.b64encode(msgspec.json.encode((task.id, task.source_arn))).decode()


def _listed(task: StoredTask) -> MoveTask:
    unset = msgspec.UNSET
    return MoveTask(
        task_handle=_handle(task) if task.status == "RUNNING" else unset,
        status=task.status,
        source_arn=task.source_arn,
        destination_arn=task.destination_arn or unset,
        max_number_of_messages_per_second=task.rate or unset,
        approximate_number_of_messages_moved=task.moved,
        approximate_number_of_messages_to_move=task.to_move,
        failure_reason=task.failure or unset,
        started_timestamp=task.started_ms,
    )
