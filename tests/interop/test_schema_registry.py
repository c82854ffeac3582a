"""Every method of Confluent's own client, and `curl` as in Confluent's documentation."""

import json
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast
from uuid import uuid4

import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tests.interop.servers import Server


def record(*fields: str, name: str = "User") -> str:
    return json.dumps({"type": "record", "name": name, "fields": [json.loads(f) for f in fields]})


NAME = '{"name": "name", "type": "string"}'
AGE = '{"name": "age", "type": "int", "default": 0}'
CITY = '{"name": "city", "type": "string"}'
USER = Schema(record(NAME), "AVRO")
USER_WITH_AGE = Schema(record(NAME, AGE), "AVRO")
USER_WITH_CITY = Schema(record(NAME, CITY), "AVRO")


@pytest.fixture
def registry(server: Server) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": server.http_url}) as client:
        yield client


@pytest.fixture
def another(server: Server) -> Iterator[SchemaRegistryClient]:
    """A client that has nothing in its caches."""
    with SchemaRegistryClient({"url": server.http_url}) as client:
        yield client


@pytest.fixture
def subject() -> str:
    """With a slash, a space and letters beyond ASCII."""
    return f"orders/größe {uuid4().hex[:8]}-value"


def code_of(call: Callable[[], object]) -> int:
    with pytest.raises(SchemaRegistryError) as raised:
        call()
    status = raised.value.error_code
    assert raised.value.http_status_code == (status if status < 1_000 else status // 100)
    return status


def test_versions_of_a_subject(
    registry: SchemaRegistryClient, another: SchemaRegistryClient, subject: str
) -> None:
    first = registry.register_schema_full_response(subject, USER)
    second = registry.register_schema(subject, USER_WITH_AGE)
    assert another.register_schema(subject, USER) == first.schema_id
    assert subject in registry.get_subjects()
    assert registry.get_subjects(subject_prefix=subject, limit=1) == [subject]
    assert registry.get_versions(subject) == [1, 2]
    assert registry.get_versions(subject, offset=1, limit=1) == [2]
    assert registry.get_latest_version(subject).schema_id == second
    shown = registry.get_version(subject, 1)
    assert (shown.subject, shown.version, shown.schema_id) == (subject, 1, first.schema_id)
    assert json.loads(str(shown.schema.schema_str)) == json.loads(str(USER.schema_str))
    assert registry.lookup_schema(subject, USER_WITH_AGE).version == 2
    assert json.loads(str(another.get_schema(second).schema_str)) == json.loads(
        str(USER_WITH_AGE.schema_str)
    )
    assert registry.get_schema_by_guid(str(first.guid)).schema_type == "AVRO"
    assert registry.get_subjects_by_schema_id(second, subject_name=subject) == [subject]
    assert [v.version for v in registry.get_schema_versions(second, subject)] == [2]
    assert set(registry.get_schema_types()) == {"AVRO", "JSON", "PROTOBUF"}
    assert registry.get_contexts() == ["."]


def test_what_is_not_there(registry: SchemaRegistryClient, subject: str) -> None:
    assert code_of(lambda: registry.get_versions(subject)) == 40401
    assert code_of(lambda: registry.get_latest_version(subject)) == 40401
    assert code_of(lambda: registry.lookup_schema(subject, USER)) == 40401
    assert code_of(lambda: registry.delete_subject(subject)) == 40401
    assert code_of(lambda: registry.get_schema(2_000_000)) == 40403
    assert code_of(lambda: registry.get_schema_by_guid(str(uuid4()))) == 40403
    assert code_of(lambda: registry.get_config(subject)) == 40408
    assert code_of(lambda: registry.get_mode(subject)) == 40409
    registry.register_schema(subject, USER)
    assert code_of(lambda: registry.get_version(subject, 9)) == 40402
    assert code_of(lambda: registry.lookup_schema(subject, USER_WITH_AGE)) == 40403
    assert code_of(lambda: registry.get_version(subject, cast(Any, "first"))) == 42202
    assert (
        code_of(lambda: registry.register_schema(subject, Schema('{"type": "nothing"}'))) == 42201
    )
    assert code_of(lambda: registry.register_schema(subject, Schema("{}", "XML"))) == 42201
    assert code_of(lambda: registry.register_schema(":.__GLOBAL:a", USER)) == 42208


def test_deleting_in_two_steps(registry: SchemaRegistryClient, subject: str) -> None:
    schema_id = registry.register_schema(subject, USER)
    registry.register_schema(subject, USER_WITH_AGE)
    assert code_of(lambda: registry.delete_version(subject, 1, permanent=True)) == 40407
    assert code_of(lambda: registry.delete_subject(subject, permanent=True)) == 40405
    assert registry.delete_version(subject, 1) == 1
    assert code_of(lambda: registry.delete_version(subject, 1)) == 40406
    assert registry.get_versions(subject) == [2]
    assert registry.get_versions(subject, deleted=True) == [1, 2]
    assert registry.get_versions(subject, deleted_only=True) == [1]
    assert registry.get_version(subject, 1, deleted=True).version == 1
    assert registry.delete_subject(subject) == [2]
    assert subject not in registry.get_subjects()
    assert subject in registry.get_subjects(deleted=True)
    assert subject in registry.get_subjects(deleted_only=True)
    assert code_of(lambda: registry.delete_subject(subject)) == 40404
    assert registry.delete_subject(subject, permanent=True) == [1, 2]
    assert code_of(lambda: registry.get_versions(subject, deleted=True)) == 40401
    new_id = registry.register_schema(subject, Schema(record(NAME, name="Other"), "AVRO"))
    assert new_id > schema_id


def test_compatibility(registry: SchemaRegistryClient, subject: str) -> None:
    registry.register_schema(subject, USER)
    assert registry.get_compatibility() == "BACKWARD"
    assert registry.test_compatibility(subject, USER_WITH_AGE)
    assert not registry.test_compatibility(subject, USER_WITH_CITY, version=1)
    assert not registry.test_compatibility_all_versions(subject, USER_WITH_CITY, verbose=True)
    assert code_of(lambda: registry.register_schema(subject, USER_WITH_CITY)) == 409
    registry.set_compatibility(subject, "FORWARD")
    assert registry.get_compatibility(subject) == "FORWARD"
    assert registry.test_compatibility(subject, USER_WITH_CITY)
    assert registry.register_schema(subject, USER_WITH_CITY)
    assert code_of(lambda: registry.set_compatibility(subject, "SIDEWAYS")) == 42203


def test_config_and_groups(registry: SchemaRegistryClient, subject: str) -> None:
    def grouped(schema: Schema, group: str) -> Schema:
        metadata = Metadata(None, MetadataProperties({"major": group}), None)
        return Schema(schema.schema_str, "AVRO", metadata=metadata)

    registry.set_config(
        subject, ServerConfig(ConfigCompatibilityLevel.FULL, compatibility_group="major")
    )
    config = registry.get_config(subject)
    assert config.compatibility_level == "FULL"
    assert config.compatibility_group == "major"
    registry.register_schema(subject, grouped(USER, "1"))
    assert code_of(lambda: registry.register_schema(subject, grouped(USER_WITH_CITY, "1"))) == 409
    registry.register_schema(subject, grouped(USER_WITH_CITY, "2"))
    found = registry.get_latest_with_metadata(subject, {"major": "1"})
    assert found.version == 1
    assert found.schema.metadata is not None
    assert registry.delete_config(subject).compatibility_level == "FULL"
    assert code_of(lambda: registry.delete_config(subject)) == 40401


def test_rules_are_stored(
    registry: SchemaRegistryClient, another: SchemaRegistryClient, subject: str
) -> None:
    rule = Rule(
        name="check",
        kind=RuleKind.CONDITION,
        mode=RuleMode.WRITE,
        type="CEL",
        expr="message.name != ''",
        doc=None,
        tags=None,
        params=None,
        on_success=None,
        on_failure="DLQ",
        disabled=False,
    )
    schema = Schema(USER.schema_str, "AVRO", rule_set=RuleSet(None, [rule]))
    schema_id = registry.register_schema(subject, schema)
    assert schema_id != registry.register_schema(f"{subject}-plain", USER)
    stored = another.get_schema(schema_id).rule_set
    assert stored is not None
    assert stored.domain_rules == [rule]


def test_modes(registry: SchemaRegistryClient, subject: str) -> None:
    assert registry.get_global_mode() == "READWRITE"
    assert registry.update_mode(subject, "READONLY") == "READONLY"
    assert registry.get_mode(subject) == "READONLY"
    assert code_of(lambda: registry.register_schema(subject, USER)) == 42205
    assert registry.delete_mode(subject) == "READONLY"
    registry.register_schema(subject, USER)
    assert code_of(lambda: registry.update_mode(subject, "IMPORT")) == 42205
    assert code_of(lambda: registry.update_mode(subject, "SLEEP")) == 42204
    assert registry.update_mode(subject, "IMPORT", force=True) == "IMPORT"
    assert registry.update_global_mode("READWRITE") == "READWRITE"


def test_references(registry: SchemaRegistryClient, subject: str) -> None:
    registry.register_schema(f"{subject}-user", USER)
    holder = record('{"name": "user", "type": "User"}', name="Holder")
    assert code_of(lambda: registry.register_schema(subject, Schema(holder, "AVRO"))) == 42201
    reference = SchemaReference("User", f"{subject}-user", 1)
    schema_id = registry.register_schema(subject, Schema(holder, "AVRO", [reference]))
    assert registry.get_referenced_by(f"{subject}-user", 1) == [schema_id]
    assert registry.get_schema(schema_id).references == [reference]
    assert code_of(lambda: registry.delete_subject(f"{subject}-user")) == 42206
    assert code_of(lambda: registry.delete_version(f"{subject}-user", 1)) == 42206
    registry.delete_subject(subject)
    assert registry.delete_subject(f"{subject}-user") == [1]
    missing = Schema(holder, "AVRO", [SchemaReference("User", "nowhere", 1)])
    assert code_of(lambda: registry.register_schema(subject, missing)) == 42201


def test_a_client_in_a_context(server: Server, registry: SchemaRegistryClient) -> None:
    """By its URL, and by subjects that name the context."""
    context, subject = f".team-{uuid4().hex[:8]}", "orders-value"
    qualified = f":{context}:{subject}"
    with SchemaRegistryClient({"url": f"{server.http_url}/contexts/{context}"}) as inside:
        assert inside.register_schema(f"{subject}-user", USER) == 1
        holder = record('{"name": "user", "type": "User"}', name="Holder")
        reference = SchemaReference("User", f"{subject}-user", 1)
        assert inside.register_schema(subject, Schema(holder, "AVRO", [reference])) == 2
        assert (
            inside.get_schema(1).schema_str
            == inside.get_version(f"{subject}-user", 1).schema.schema_str
        )
        assert set(inside.get_subjects()) == {qualified, f"{qualified}-user"}
        assert inside.get_subjects(subject_prefix=f"{subject}-") == [f"{qualified}-user"]
        assert context in inside.get_contexts()
        level = ServerConfig(compatibility=ConfigCompatibilityLevel.NONE)
        inside.set_config(config=level)
        assert inside.register_schema(f"{subject}-user", USER_WITH_CITY) == 3
        assert inside.update_global_mode("READONLY") == "READONLY"
        assert code_of(lambda: inside.register_schema(subject, USER)) == 42205
        assert inside.update_global_mode("READWRITE") == "READWRITE"
    assert registry.get_global_mode() == "READWRITE"
    assert code_of(lambda: registry.register_schema(f"{qualified}2", Schema("{", "AVRO"))) == 42201
    assert registry.get_latest_version(qualified).schema_id == 2
    assert registry.get_schema(2, subject_name=f":{context}:").references == [reference]
    assert registry.get_versions(f"{qualified}-user") == [1, 2]
    assert registry.lookup_schema(qualified, Schema(holder, "AVRO", [reference])).version == 1
    registry.delete_subject(qualified)
    assert registry.delete_subject(f"{qualified}-user") == [1, 2]
    for name in (qualified, f"{qualified}-user"):
        registry.delete_subject(name, permanent=True)
    assert context in registry.get_contexts()
    assert curl("-X", "DELETE", f"{server.http_url}/contexts/{context}") == (204, "")
    assert context not in registry.get_contexts()


def test_clients_that_register_at_once_get_one_id(server: Server, subject: str) -> None:
    def register(number: int) -> tuple[int, int | None]:
        with SchemaRegistryClient({"url": server.http_url}) as client:
            schema = USER if number % 2 else USER_WITH_AGE
            found = client.register_schema_full_response(subject, schema)
            return number % 2, found.schema_id

    with ThreadPoolExecutor(16) as threads:
        found = set(threads.map(register, range(48)))
    assert len(found) == 2
    with SchemaRegistryClient({"url": server.http_url}) as client:
        assert client.get_versions(subject) == [1, 2]


def curl(*arguments: str) -> tuple[int, str]:
    command = ["curl", "--silent", "--write-out", "\n%{http_code}", *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    content, _, status = printed.rpartition("\n")
    return int(status), content


def test_curl_as_documented(server: Server) -> None:
    url = f"{server.http_url}/subjects/Kafka-value"
    kind = ("-H", "Content-Type: application/vnd.schemaregistry.v1+json")
    schema = ("--data", '{"schema": "{\\"type\\": \\"string\\"}"}')
    status, registered = curl("-X", "POST", *kind, *schema, f"{url}/versions")
    assert status == 200
    schema_id = json.loads(registered)["id"]
    assert curl(f"{server.http_url}/schemas/ids/{schema_id}/schema") == (200, '"string"')
    assert curl(f"{url}/versions") == (200, "[1]")
    assert curl(f"{url}/versions/latest/schema") == (200, '"string"')
    assert json.loads(curl("-X", "POST", *kind, *schema, url)[1])["version"] == 1
    assert curl("-X", "DELETE", f"{url}/versions/latest") == (200, "1")
    assert curl(f"{url}/versions?deletedAsNegative=true") == (200, "[-1]")
    assert curl("-X", "DELETE", f"{url}/versions/1?permanent=true") == (200, "1")
    level = ("--data", '{"compatibility": "NONE"}')
    assert curl("-X", "PUT", *kind, *level, f"{server.http_url}/config/Kafka-value") == (
        200,
        '{"compatibility":"NONE"}',
    )
    assert curl(f"{server.http_url}/config/Kafka-value") == (200, '{"compatibilityLevel":"NONE"}')
    assert curl("-H", "Accept: application/vnd.schemaregistry.v1+json", server.http_url) == (
        200,
        "{}",
    )
