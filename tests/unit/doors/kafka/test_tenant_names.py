"""Every string and every bytes of every message is a name, or known not to be one."""

import asyncio
import dataclasses
import threading
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from kio.index import load_request_schema, load_response_schema

from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.kafka.operation import Operation
from goqueue.doors.kafka.rows import Rows
from goqueue.doors.kafka.tenant_names import (
    RESOURCE_NAME,
    SPECIAL_IN_ANSWERS,
    SPECIAL_IN_REQUESTS,
    is_name,
    tenant_names,
)
from goqueue.model.caller import Principal
from goqueue.model.groups.consumer_protocol import (
    read_assignment,
    read_subscription,
    rename_subscribed,
    write_assignment,
    write_subscription,
)

LARGE = write_subscription(0, ["orders"] * 20_000)

# Strings that name nothing of a tenant's, by the last part of their path.
OF_CLIENTS = {
    "client_software_name",
    "client_software_version",
    "client_id",
    "client_host",
    "rack_id",
    "member_id",
    "group_instance_id",
    "instance_id",
    "process_id",
    "reason",
    "leader",
    "committed_metadata",
    "records",
    "metadata",
    "subtopology_id",
    "host",
    "key",
    "value",
    "transaction_state",
    "group_state",
    "group_type",
}
OF_PROTOCOLS = {
    "protocol_type",
    "protocol_name",
    "protocol_data",
    "server_assignor",
    "assignor_name",
    "states_filter",
    "types_filter",
    "state_filters",
    "unknown_state_filters",
}
# What whoever may see or change the cluster is told, and what settings are called.
OF_CLUSTERS = {
    "cluster_id",
    "rack",
    "log_dir",
    "path",
    "feature",
    "configuration_keys",
    "documentation",
    "requested_metrics",
    "metrics",
}
# Users and how they log in; rules have the names that their tenant uses.
OF_SECURITY = {
    "mechanism",
    "mechanisms",
    "auth_bytes",
    "user",
    "salt",
    "salted_password",
    "principal",
    "principal_filter",
    "host_filter",
    "principal_type",
    "principal_name",
    "owner_principal_type",
    "owner_principal_name",
    "token_requester_principal_type",
    "token_requester_principal_name",
    "requester_principal_type",
    "requester_principal_name",
    "token_id",
    "hmac",
    "resource_name_filter",
}
# Expressions over names, which the service confines; `name` is that of a setting or the like.
OTHERS = {"subscribed_topic_regex", "source_topic_regex", "transactional_id_pattern", "name"}
# Whom quotas are for, and what they are called; only whoever may see the cluster is told.
OF_QUOTAS = {"entity_type", "entity_name", "match", "key"}
NO_NAMES = OF_CLIENTS | OF_PROTOCOLS | OF_CLUSTERS | OF_SECURITY | OF_QUOTAS | OTHERS
TEXTS = ("error_message", "status_detail")


def texts_of(entity: Any, path: str = "") -> list[tuple[Any, str, str]]:
    """Entity, field and path of all strings and bytes."""
    found = []
    for field in dataclasses.fields(entity):
        for kind in _kinds(field.type):
            if dataclasses.is_dataclass(kind):
                found += texts_of(kind, f"{path}{field.name}.")
            elif isinstance(kind, type) and issubclass(kind, str | bytes):
                found.append((entity, field.name, path + field.name))
    return found


def _kinds(kind: Any) -> list[Any]:
    inner = get_args(kind)
    return [found for each in inner for found in _kinds(each)] if inner else [kind]


@pytest.mark.parametrize("operation", [pytest.param(o, id=o.name) for o in OPERATIONS.values()])
def test_every_text_is_a_name_or_known_not_to_be_one(operation: Operation) -> None:
    key = operation.api_key
    for version in range(operation.min_version, operation.max_version + 1):
        for entity, field, path in texts_of(load_request_schema(key, version)):
            known = (key, path) in SPECIAL_IN_REQUESTS or field == RESOURCE_NAME
            assert known or is_name(entity, field) or field in NO_NAMES, path
        for entity, field, path in texts_of(load_response_schema(key, version)):
            known = (key, path) in SPECIAL_IN_ANSWERS or field == RESOURCE_NAME
            known = known or field.endswith(TEXTS)
            assert known or is_name(entity, field) or field in NO_NAMES, path


def test_a_subscription_keeps_all_but_the_names_of_topics() -> None:
    given = write_subscription(3, ["orders"], {"orders": [1, 0]}, generation=7, rack_id="orders")
    join = tenant_names(11, 5)

    answer = {"members": [{"member_id": "m", "metadata": given}]}
    assert join.local(answer, "acme") == answer
    inner = write_subscription(
        3, ["acme@orders"], {"acme@orders": [1, 0]}, generation=7, rack_id="orders"
    )
    shown = join.local({"members": [{"member_id": "m", "metadata": inner}]}, "acme")
    assert shown == answer
    assert read_subscription(shown["members"][0]["metadata"]).rack_id == "orders"


def test_a_name_that_cannot_be_longer_keeps_no_other_from_being_renamed() -> None:
    """Else those beside it would be taken for names of other tenants."""
    long = "x" * (2**15 - 1)
    given = write_subscription(0, [long, "zeta@orders"])
    renamed = rename_subscribed(given, lambda name: f"acme@{name}")
    assert read_subscription(renamed).topics == (long, "acme@zeta@orders")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("api_key", "request_", "answer"),
    [
        (11, SimpleNamespace(protocols=[SimpleNamespace(metadata=LARGE)]), {"members": []}),
        (11, SimpleNamespace(protocols=[]), {"members": [{"metadata": LARGE}]}),
        (14, SimpleNamespace(assignments=[SimpleNamespace(assignment=LARGE)]), {"assignment": b""}),
        (14, SimpleNamespace(assignments=[]), {"assignment": LARGE}),
        (
            15,
            None,
            {"groups": [{"members": [{"member_metadata": LARGE, "member_assignment": b""}]}]},
        ),
    ],
)
async def test_names_in_very_many_bytes_are_looked_for_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, api_key: int, request_: Any, answer: dict[str, Any]
) -> None:
    """Four million names in one subscription took four seconds, in which nobody else was served."""
    threads: list[int] = []

    def rename(value: Any, _tenant: str) -> Any:
        threads.append(threading.get_ident())
        return value

    async def handle(_context: Any, _request: Any) -> Any:
        return answer

    names = tenant_names(api_key, 3)._replace(inner=rename, local=rename)
    monkeypatch.setattr("goqueue.doors.kafka.operation.tenant_names", lambda *_: names)
    context: Any = SimpleNamespace(
        caller=SimpleNamespace(principal=Principal("User", "ann", "acme")),
        services=SimpleNamespace(large_contents=asyncio.Lock()),
        version=3,
    )
    operation = dataclasses.replace(OPERATIONS[api_key], handle=handle)
    assert await operation.answer(context, request_) == answer
    assert sum(each != threading.get_ident() for each in threads) == 1


def test_bytes_that_are_no_assignment_stay() -> None:
    sync = tenant_names(14, 3)
    for data in (b"", b"\x00", b"\x00\x01\x7f\xff\xff\xff", b"acme@orders"):
        assert sync.local({"assignment": data}, "acme")["assignment"] == data
    inner = write_assignment(1, {"acme@orders": [0]})
    shown = sync.local({"assignment": inner}, "acme")["assignment"]
    assert read_assignment(shown).partitions == {"orders": (0,)}


def test_rows_are_renamed_when_they_are_made() -> None:
    made: list[str] = []

    def make(name: str) -> dict[str, Any]:
        made.append(name)
        return {"name": name, "error_message": f"topic '{name}' is not there"}

    listed = tenant_names(20, 5).local({"responses": Rows(["acme@a", "acme@b"], make)}, "acme")
    assert not made
    assert [dict(row) for row in listed["responses"]] == [
        {"name": "a", "error_message": "topic 'a' is not there"},
        {"name": "b", "error_message": "topic 'b' is not there"},
    ]
