"""Committing offsets of a group without members, from code without an event loop."""

from collections.abc import Mapping

from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
from kio.schema.offset_commit.v9.response import OffsetCommitResponse

from goqueue.client.blocking_connection import BlockingConnection, connect_any
from goqueue.client.group_facts import PartitionKey
from goqueue.client.groups import check_commit, commit_request
from goqueue.client.questions import coordinator_in, coordinator_request
from goqueue.model.client_security import NO_SECURITY, ClientSecurity


def commit_offsets(
    bootstrap_servers: str,
    group: str,
    offsets: Mapping[PartitionKey, int],
    security: ClientSecurity = NO_SECURITY,
) -> None:
    with connect_any(bootstrap_servers, security) as entrance:
        answer = entrance.call(coordinator_request(group), FindCoordinatorResponse)
        found = coordinator_in(answer, group)
    with BlockingConnection(found.host, int(found.port), security) as coordinator:
        check_commit(group, coordinator.call(commit_request(group, offsets), OffsetCommitResponse))
