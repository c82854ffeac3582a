"""Reading a consumer heartbeat: is it valid, and does it say anything new?"""

import msgspec

from goqueue.model.groups.errors import GroupError
from goqueue.model.groups.messages import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    UNKNOWN_MEMBER_ID,
    ConsumerGroupHeartbeat,
)
from goqueue.state.groups.assignors import ASSIGNORS
from goqueue.state.groups.consumer_group import ConsumerGroup
from goqueue.state.groups.records import ConsumerMemberValue
from goqueue.state.groups.refused import Refused
from goqueue.state.groups.states import MemberState


def says_nothing_new(group: ConsumerGroup, request: ConsumerGroupHeartbeat) -> bool:
    """The heartbeat of a settled member in a settled group, which is nearly all of them."""
    member = group.members.get(request.member_id)
    return (
        member is not None
        and request.member_epoch == member.current.epoch == group.epoch == group.assignment_epoch
        and member.current.state is MemberState.STABLE
        and not group.topics_changed
        and request.subscribed_topics is None
        and request.subscribed_regex is None
        and request.rebalance_timeout_ms == -1
        and request.server_assignor is None
        and request.rack_id is None
        and (request.instance_id is None or request.instance_id == member.said.instance_id)
        and request.client.client_id == member.said.client_id
        and request.client.host == member.said.client_host
        and member.said.classic is None
        and (not member.said.regex or request.client.viewer == member.said.viewer)
    )


def is_full(request: ConsumerGroupHeartbeat) -> bool:
    """A member that missed an answer repeats all it has said, and wants to be told all again."""
    subscribes = request.subscribed_topics is not None or request.subscribed_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.owned is not None


def said_by(before: ConsumerMemberValue, request: ConsumerGroupHeartbeat) -> ConsumerMemberValue:
    changes: dict[str, object] = {
        "client_id": request.client.client_id,
        "client_host": request.client.host,
        "classic": None,
    }
    if request.instance_id is not None:
        changes["instance_id"] = request.instance_id
    if request.rack_id is not None:
        changes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None:
        changes["assignor"] = request.server_assignor
    if request.subscribed_topics is not None:
        changes["topics"] = tuple(sorted(set(request.subscribed_topics)))
    if request.subscribed_regex is not None:
        changes["regex"] = request.subscribed_regex
    changes["viewer"] = request.client.viewer if changes.get("regex", before.regex) else None
    return msgspec.structs.replace(before, **changes)


def check_request(request: ConsumerGroupHeartbeat) -> None:
    epoch = request.member_epoch
    _require(bool(request.group_id), "group id must not be empty")
    _require(request.instance_id != "", "instance id must not be empty")
    _require(request.rack_id != "", "rack id must not be empty")
    _require(request.rebalance_timeout_ms >= -1, "rebalance timeout must not be negative")
    _require(epoch >= STATIC_LEAVE_EPOCH, f"member epoch {epoch} is below {STATIC_LEAVE_EPOCH}")
    if epoch != JOIN_EPOCH or request.brings_member_id:
        _require(request.member_id != UNKNOWN_MEMBER_ID, "member id must not be empty")
    if epoch == STATIC_LEAVE_EPOCH:
        _require(request.instance_id is not None, "instance id must be set to leave with epoch -2")
    if epoch == JOIN_EPOCH:
        subscribes = request.subscribed_topics is not None or request.subscribed_regex is not None
        _require(request.rebalance_timeout_ms != -1, "rebalance timeout must be set when joining")
        _require(subscribes, "subscribed topics or a regular expression must be set when joining")
        _require(request.owned == {}, "owned partitions must be empty when joining")
    assignor = request.server_assignor
    if assignor is not None and assignor not in ASSIGNORS:
        raise Refused(
            GroupError.UNSUPPORTED_ASSIGNOR,
            f"server assignor {assignor!r} is not one of {', '.join(ASSIGNORS)}",
        )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise Refused(GroupError.INVALID_REQUEST, message)
