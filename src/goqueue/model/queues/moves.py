"""Tasks that carry dead letters to other queues, as SQS has them."""

from enum import StrEnum
from typing import NamedTuple

import msgspec

from goqueue.model.errors import GoQueueError, InvalidRequest, UnknownTopic


class MoveStatus(StrEnum):
    """A task runs until it ends in one of the other three, for good."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class MoveStarter(msgspec.Struct, frozen=True, kw_only=True):
    """Who started a task, as rules know it: the task lasts no longer than its rights.
    `user_created_ms`: of the user that the broker keeps; None where only others know the name."""

    kind: str
    name: str
    tenant: str
    address: str
    user_created_ms: int | None


class MoveTask(msgspec.Struct, frozen=True, kw_only=True):
    """`destination` None: each message goes back to where it came from, if that is one of
    `origins`. `rate` is in messages a second. `failure` is the code of the error that ended the
    task."""

    id: str
    source: str
    source_arn: str
    destination: str | None
    destination_arn: str | None
    rate: int | None
    started_ms: int
    to_move: int
    moved: int = 0
    status: MoveStatus = MoveStatus.RUNNING
    failure: str | None = None
    # Those that whoever started the task may write to. Tasks of older data folders have none.
    origins: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    # Not there where it was started without rules, or by an older release.
    starter: MoveStarter | msgspec.UnsetType = msgspec.UNSET


class MoveRunning(InvalidRequest):
    """A dead-letter queue has one task at a time."""

    code = "move_running"


class UnknownMoveTask(GoQueueError):
    code = "unknown_move_task"


class MoveEnded(GoQueueError):
    """Only a task that runs can be cancelled."""

    code = "move_ended"


class UnknownOrigin(GoQueueError):
    """A message that is no dead letter, or names a topic that sends none here, goes nowhere."""

    code = "unknown_origin"


class UnknownMoveSource(UnknownTopic):
    """There is no queue that the task could take messages from."""

    code = "unknown_move_source"


class UnknownMoveDestination(UnknownTopic):
    """There is no queue that the task could bring messages to."""

    code = "unknown_move_destination"


class NewMove(NamedTuple):
    """What a task is started with. The ARNs are kept as the caller wrote them."""

    source: str
    source_arn: str
    destination: str | None
    destination_arn: str | None
    rate: int | None
