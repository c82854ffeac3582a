"""Settings over the wire: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and the list."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture(autouse=True)
async def _topic(broker: Node) -> None:
    await BrokerService(broker).topics.create(
        ANYONE, NewTopic(name="a", config={"retention.ms": "7"})
    )


async def describe(
    client: WireClient, kind: int, name: str, version: int = 4, **more: Any
) -> dict[str, Any]:
    keys = more.pop("keys", None)
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    answer = await client.call("describe_configs", version, resources=[resource], **more)
    (result,) = answer.results
    assert result.error_code is ErrorCode.none
    return {config.name: config for config in result.configs}


def change(name: str, op: int, value: str | None) -> dict[str, Any]:
    return {"name": name, "config_operation": op, "value": value}


async def alter(
    client: WireClient, name: str, *changes: dict[str, Any], kind: int = TOPIC, **more: Any
) -> ErrorCode:
    resource = {"resource_type": kind, "resource_name": name, "configs": changes}
    answer = await client.call("incremental_alter_configs", resources=[resource], **more)
    code: ErrorCode = answer.responses[0].error_code
    return code


@pytest.mark.parametrize("version", range(1, 5))
async def test_topic_settings_tell_value_and_source(client: WireClient, version: int) -> None:
    configs = await describe(client, TOPIC, "a", version)
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("7", 1)
    assert (configs["segment.bytes"].config_source, configs["segment.bytes"].synonyms) == (5, ())


async def test_synonyms_and_docs_are_told_when_asked_for(client: WireClient) -> None:
    configs = await describe(client, TOPIC, "a", include_synonyms=True, include_documentation=True)
    retention = configs["retention.ms"]
    assert [(s.value, s.source) for s in retention.synonyms] == [("7", 1), ("604800000", 5)]
    assert retention.config_type == 5
    assert "older" in retention.documentation


async def test_only_the_keys_asked_for_are_told(client: WireClient) -> None:
    configs = await describe(client, TOPIC, "a", keys=("retention.ms", "nope"))
    assert set(configs) == {"retention.ms"}
    assert len(await describe(client, TOPIC, "a", keys=())) > 10


async def test_many_are_described_at_once(client: WireClient) -> None:
    resources = [
        {"resource_type": TOPIC, "resource_name": name, "configuration_keys": None}
        for name in ["a", *(f"missing-{n}" for n in range(200)), "a"]
    ]
    answer = await client.call("describe_configs", resources=resources)
    found = {result.resource_name: result for result in answer.results}
    assert len(found) == len(answer.results) == 201, "what is asked for twice is told once"
    assert {config.name: config.value for config in found["a"].configs}["retention.ms"] == "7"
    assert found["missing-9"].error_code is ErrorCode.unknown_topic_or_partition


async def test_broker_settings_are_told(client: WireClient) -> None:
    configs = await describe(client, BROKER, "0")
    assert configs["num.partitions"].value == "3"
    assert not configs["num.partitions"].read_only
    assert configs["kafka.port"].config_source == 4
    assert configs["kafka.port"].read_only


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "b", ErrorCode.unknown_topic_or_partition),
        (TOPIC, "../a", ErrorCode.invalid_topic_exception),
        (BROKER, "7", ErrorCode.invalid_request),
        (BROKER, "x", ErrorCode.invalid_request),
        (LOGGER, "", ErrorCode.invalid_request),
        (LOGGER, "7", ErrorCode.invalid_request),
        (99, "a", ErrorCode.invalid_request),
    ],
)
async def test_what_has_no_settings(
    client: WireClient, kind: int, name: str, code: ErrorCode
) -> None:
    resource = {"resource_type": kind, "resource_name": name}
    (result,) = (await client.call("describe_configs", resources=[resource])).results
    assert (result.error_code, result.configs) == (code, ())
    assert result.error_message


@pytest.mark.parametrize("version", range(2))
async def test_single_settings_change(client: WireClient, broker: Node, version: int) -> None:
    changes = [change("segment.bytes", SET, "2000"), change("retention.ms", DELETE, None)]
    resource = {"resource_type": TOPIC, "resource_name": "a", "configs": changes}
    answer = await client.call("incremental_alter_configs", version, resources=[resource])
    assert answer.responses[0].error_code is ErrorCode.none
    assert broker.topic("a").config == {"segment.bytes": "2000"}


async def test_lists_are_appended_to_and_subtracted_from(client: WireClient, broker: Node) -> None:
    assert await alter(client, "a", change("cleanup.policy", APPEND, "compact")) is ErrorCode.none
    assert broker.topic("a").config["cleanup.policy"] == "delete,compact"
    await alter(client, "a", change("cleanup.policy", SUBTRACT, "delete"))
    assert broker.topic("a").config["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([change("retention.ms", SET, "x")], ErrorCode.invalid_config),
        ([change("nope", SET, "1")], ErrorCode.invalid_config),
        ([change("retention.ms", APPEND, "1")], ErrorCode.invalid_config),
        ([change("retention.ms", SET, None)], ErrorCode.invalid_request),
        ([change("retention.ms", 9, "1")], ErrorCode.invalid_request),
        ([change("retention.ms", SET, "1")] * 2, ErrorCode.invalid_request),
    ],
)
async def test_bad_changes_change_nothing(
    client: WireClient, broker: Node, changes: list[dict[str, Any]], code: ErrorCode
) -> None:
    assert await alter(client, "a", change("segment.bytes", SET, "99"), *changes) is code
    assert broker.topic("a").config == {"retention.ms": "7"}


async def test_validation_alone_changes_nothing(client: WireClient, broker: Node) -> None:
    changed = change("retention.ms", SET, "8")
    assert await alter(client, "a", changed, validate_only=True) is ErrorCode.none
    assert broker.topic("a").config == {"retention.ms": "7"}


async def test_a_resource_named_twice_is_refused(client: WireClient) -> None:
    resource = {
        "resource_type": TOPIC,
        "resource_name": "a",
        "configs": [change("retention.ms", SET, "1")],
    }
    answer = await client.call("incremental_alter_configs", resources=[resource, resource])
    assert [r.error_code for r in answer.responses] == [ErrorCode.invalid_request] * 2


async def test_brokers_get_topic_defaults_each_or_all(client: WireClient) -> None:
    changed = change("topic.retention.ms", SET, "123")
    assert await alter(client, "", changed, kind=BROKER) is ErrorCode.none
    assert (await describe(client, BROKER, ""))["topic.retention.ms"].config_source == 3
    changed = change("topic.retention.ms", SET, "456")
    assert await alter(client, "0", changed, kind=BROKER) is ErrorCode.none
    configs = await describe(client, BROKER, "0")
    told = configs["topic.retention.ms"]
    assert (told.value, told.config_source) == ("456", 2)
    assert await alter(client, "1", changed, kind=BROKER) is ErrorCode.invalid_request
    assert await alter(client, "z", changed) is ErrorCode.unknown_topic_or_partition


async def test_brokers_take_kafkas_names(client: WireClient, broker: Node) -> None:
    name = "log.retention.ms"
    assert await alter(client, "", change(name, SET, "123"), kind=BROKER) is ErrorCode.none
    told = (await describe(client, BROKER, ""))[name]
    assert (told.value, told.config_source, told.read_only) == ("123", 3, False)
    assert await alter(client, "0", change(name, SET, "456"), kind=BROKER) is ErrorCode.none
    configs = await describe(client, BROKER, "0", include_synonyms=True)
    synonyms = [(s.name, s.value, s.source) for s in configs[name].synonyms]
    assert synonyms == [(name, "456", 2), (name, "123", 3), (name, "604800000", 5)]
    assert configs["topic.retention.ms"].value == configs[name].value == "456"
    own = (await describe(client, TOPIC, "a", include_synonyms=True))["retention.ms"]
    assert [(s.name, s.source) for s in own.synonyms][:3] == [
        ("retention.ms", 1),
        (name, 2),
        (name, 3),
    ]
    assert await alter(client, "0", change(name, DELETE, None), kind=BROKER) is ErrorCode.none
    assert (await describe(client, BROKER, "0"))[name].value == "123"
    appended = change("log.cleanup.policy", APPEND, "compact")
    assert await alter(client, "", appended, kind=BROKER) is ErrorCode.none
    told = (await describe(client, BROKER, "0"))["log.cleanup.policy"]
    assert told.value == "delete,compact"


async def test_rates_go_as_kafkas_tool_for_moves_deletes_them(
    client: WireClient, broker: Node
) -> None:
    """With them one of directories that nobody can set."""
    rates = [f"{role}.replication.throttled.rate" for role in ("leader", "follower")]
    for name in rates:
        assert await alter(client, "0", change(name, SET, "5"), kind=BROKER) is ErrorCode.none
    never = "replica.alter.log.dirs.io.max.bytes.per.second"
    gone = [change(name, DELETE, None) for name in (*rates, never)]
    assert await alter(client, "0", *gone, kind=BROKER) is ErrorCode.none
    assert broker.image.broker_config(broker.node_id) == {}
    refused = await alter(client, "0", change(never, SET, "5"), kind=BROKER)
    assert refused is ErrorCode.invalid_config


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("kafka.port", ErrorCode.invalid_request),
        ("advertised.listeners", ErrorCode.invalid_request),
        ("num.io.threads", ErrorCode.invalid_config),
        ("log.retention.ms", ErrorCode.invalid_config),
    ],
)
async def test_what_brokers_refuse(client: WireClient, name: str, code: ErrorCode) -> None:
    for broker in ("", "0"):
        resource = {
            "resource_type": BROKER,
            "resource_name": broker,
            "configs": [change(name, SET, "nonsense")],
        }
        answer = await client.call("incremental_alter_configs", resources=[resource])
        (told,) = answer.responses
        assert told.error_code is code
        assert told.error_message.startswith(f"{name}: ")
        resource["configs"] = [{"name": name, "value": "nonsense"}]
        (told,) = (await client.call("alter_configs", resources=[resource])).responses
        assert told.error_code is code


@pytest.fixture
def levels() -> Iterator[logging.Logger]:
    logger = logging.getLogger("goqueue.doors.kafka.server")
    ours = logging.getLogger("goqueue").level
    yield logger
    logger.setLevel(logging.NOTSET)
    logging.getLogger("goqueue").setLevel(ours)


async def test_levels_of_log_lines(client: WireClient, levels: logging.Logger) -> None:
    name = levels.name
    await alter(client, "0", change("goqueue", SET, "WARN"), kind=LOGGER)
    told = (await describe(client, LOGGER, "0"))[name]
    assert (told.value, told.config_source, told.read_only) == ("WARN", 6, False)
    wanted = change(name, SET, "debug")
    assert await alter(client, "0", wanted, kind=LOGGER, validate_only=True) is ErrorCode.none
    assert not levels.isEnabledFor(logging.DEBUG)
    assert await alter(client, "0", wanted, kind=LOGGER) is ErrorCode.none
    assert levels.isEnabledFor(logging.DEBUG)
    assert (await describe(client, LOGGER, "0"))[name].value == "DEBUG"
    assert await alter(client, "0", change(name, DELETE, None), kind=LOGGER) is ErrorCode.none
    assert (await describe(client, LOGGER, "0"))[name].value == "WARN"


@pytest.mark.parametrize(
    ("name", "wrong", "code"),
    [
        ("0", change("goqueue.no.such", SET, "INFO"), ErrorCode.invalid_config),
        ("0", change("asyncio", SET, "INFO"), ErrorCode.invalid_config),
        ("0", change("goqueue", SET, "LOUD"), ErrorCode.invalid_config),
        ("0", change("goqueue", DELETE, None), ErrorCode.invalid_request),
        ("0", change("goqueue", APPEND, "INFO"), ErrorCode.invalid_request),
        ("", change("goqueue", SET, "INFO"), ErrorCode.invalid_request),
        ("1", change("goqueue", SET, "INFO"), ErrorCode.invalid_request),
    ],
)
async def test_levels_that_are_refused(
    client: WireClient, levels: logging.Logger, name: str, wrong: dict[str, Any], code: ErrorCode
) -> None:
    good = change(levels.name, SET, "FATAL")
    assert await alter(client, name, good, wrong, kind=LOGGER) is code
    assert levels.level == logging.NOTSET, "all or nothing"


async def test_connections_are_counted_by_what_holds(client: WireClient, door: KafkaDoor) -> None:
    limited = change("max.connections", SET, "1")
    assert await alter(client, "0", limited, kind=BROKER) is ErrorCode.none
    refused = await WireClient.connect(*door.address)
    assert await refused.is_closed_by_broker()
    refused.close()
    freed = change("max.connections", DELETE, None)
    assert await alter(client, "0", freed, kind=BROKER) is ErrorCode.none
    taken = await WireClient.connect(*door.address)
    assert (await taken.call("api_versions", 2)).error_code is ErrorCode.none
    taken.close()


@pytest.mark.parametrize("version", range(3))
async def test_all_settings_are_replaced(client: WireClient, broker: Node, version: int) -> None:
    def resource(kind: int, name: str, value: str | None) -> dict[str, Any]:
        configs = [{"name": "segment.bytes", "value": value}]
        return {"resource_type": kind, "resource_name": name, "configs": configs}

    answer = await client.call(
        "alter_configs",
        version,
        resources=[
            resource(TOPIC, "a", "3000"),
            resource(TOPIC, "b", "3000"),
            resource(LOGGER, "0", "1"),
            resource(BROKER, "0", None),
        ],
    )
    assert [r.error_code for r in answer.responses] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
    ]
    assert broker.topic("a").config == {"segment.bytes": "3000"}


async def test_resources_with_settings_are_listed(client: WireClient) -> None:
    async def listed(*kinds: int) -> set[tuple[int, str]]:
        answer = await client.call("list_config_resources", resource_types=kinds)
        assert answer.error_code is ErrorCode.none
        return {(r.resource_type, r.resource_name) for r in answer.config_resources}

    assert await listed() == {(TOPIC, "a"), (BROKER, "0"), (LOGGER, "0")}
    assert await listed(TOPIC) == {(TOPIC, "a")}
    assert (await client.call("list_config_resources", 0)).config_resources == ()
    answer = await client.call("list_config_resources", resource_types=(77,))
    assert answer.error_code is ErrorCode.unsupported_version
