"""A refusal of the group coordinator as an error, with what to do about it."""

from collections.abc import Mapping
from typing import Final

from goqueue.model.errors import GoQueueError
from goqueue.model.groups.errors import GroupError

_NEXT_STEP: Final[Mapping[GroupError, str]] = {
    GroupError.REBALANCE_IN_PROGRESS: (
        "partitions are being spread anew; commit what you have done and join again"
    ),
    GroupError.UNKNOWN_MEMBER_ID: (
        "the group does not know this member (its session ended, or it never joined); join again "
        "without a member id"
    ),
    GroupError.ILLEGAL_GENERATION: "the group has moved on to another generation; join again",
    GroupError.FENCED_INSTANCE_ID: "another member has joined with this instance id",
    GroupError.FENCED_MEMBER_EPOCH: (
        "the member epoch is not the current one; give up all partitions and join again"
    ),
    GroupError.STALE_MEMBER_EPOCH: "the member epoch is not the current one; send a heartbeat",
    GroupError.GROUP_ID_NOT_FOUND: "there is no such group",
    GroupError.NON_EMPTY_GROUP: "the group has members; stop them first",
    GroupError.GROUP_MAX_SIZE_REACHED: "the group has as many members as it may have, or what "
    "they subscribe to, are assigned or commit is larger than group.member.max.bytes, "
    "group.max.bytes or, of all groups, all.groups.max.bytes",
    GroupError.INCONSISTENT_GROUP_PROTOCOL: (
        "the other members of the group use none of the assignors offered"
    ),
    GroupError.INVALID_SESSION_TIMEOUT: (
        "the session time-out is outside group.min.session.timeout.ms and "
        "group.max.session.timeout.ms"
    ),
    GroupError.OFFSET_METADATA_TOO_LARGE: "metadata is longer than offset.metadata.max.bytes",
    GroupError.UNSTABLE_OFFSET_COMMIT: "an open transaction has committed offsets; try again",
}


class GroupRefused(GoQueueError):
    """The group coordinator says no; `error` is why."""

    code = "group_refused"
    error: GroupError

    def __init__(self, error: GroupError, message: str = "") -> None:
        reason = message or _NEXT_STEP.get(error) or error.name.replace("_", " ").lower()
        super().__init__(reason)
        self.error = error


def check(error: GroupError, message: str = "") -> None:
    if error is not GroupError.NONE:
        raise GroupRefused(error, message)
