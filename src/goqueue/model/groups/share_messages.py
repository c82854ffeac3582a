"""Requests, responses and effects of share groups (KIP-932)."""

from typing import Final

import msgspec

from goqueue.model.groups.assignment import Assignment
from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import UNKNOWN_MEMBER_ID, Client

_NOBODY: Final = Client()
# Kafka's name of the one assignor that share groups have.
SHARE_ASSIGNOR: Final = "simple"


class ShareGroupHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """None means: not changed since the last heartbeat. The member always brings its own id."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    subscribed_topics: tuple[str, ...] | None = None
    client: Client = _NOBODY


class ShareGroupHeartbeatResult(msgspec.Struct, frozen=True, kw_only=True):
    error: GroupError = GroupError.NONE
    error_message: str = ""
    member_id: str = UNKNOWN_MEMBER_ID
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


class DescribedShareMember(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    rack_id: str | None
    member_epoch: int
    client: Client
    subscribed_topics: tuple[str, ...]
    assignment: Assignment


class DescribedShareGroup(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    error: GroupError = GroupError.NONE
    error_message: str = ""
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    members: tuple[DescribedShareMember, ...] = ()


class OpenedShareGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Answers whether a group may have its offsets changed; see `ShareProtocol.open_empty`."""

    error: GroupError = GroupError.NONE
    error_message: str = ""


class ShareMemberLeft(msgspec.Struct, frozen=True):
    """An effect: the member is gone, of its own will or not; what it has acquired is free."""

    group_id: str
    member_id: str
