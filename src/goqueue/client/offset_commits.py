"""Committing offsets of a group without members, from code without an event loop."""

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
from kio.schema.offset_commit.v9.response import OffsetCommitResponse
from kio.static.primitive import i8

from goqueue.client.blocking_connection import BlockingConnection, connect_any
from goqueue.client.errors import RequestRefused
from goqueue.client.group_facts import Place
from goqueue.client.groups import check_commit, commit_request

_GROUP_KEY: Final = i8(0)


def commit_offsets(bootstrap_servers: str, group: str, offsets: Mapping[Place, int]) -> None:
    with connect_any(bootstrap_servers) as entrance:
        found = entrance.call(
            FindCoordinatorRequest(key_type=_GROUP_KEY, coordinator_keys=(group,)),
            FindCoordinatorResponse,
        ).coordinators[0]
    if found.error_code is not ErrorCode.none:
        reason = found.error_message or found.error_code.name.replace("_", " ")
        raise RequestRefused(f"coordinator of group {group!r}: {reason}", int(found.error_code))
    with BlockingConnection(found.host, int(found.port)) as coordinator:
        check_commit(group, coordinator.call(commit_request(group, offsets), OffsetCommitResponse))
