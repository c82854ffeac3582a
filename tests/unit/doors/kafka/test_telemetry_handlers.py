"""Client metrics over the wire (KIP-714): subscriptions, pushes, and what is refused."""

import gzip
from typing import Any
from uuid import UUID

import cramjam
import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.client_metrics.messages import ClientSoftware
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE
from tests.otlp_pushes import gauge, metrics_data, total
from tests.unit.doors.kafka.wire_client import WireClient

pytestmark = pytest.mark.anyio

CLIENT_METRICS = 16
SET, DELETE = 0, 1
PREFIX = "org.apache.kafka.producer."
DATA = metrics_data(gauge("queue", 1.5, topic="a"), total("sent", 7))
PACKED = {
    0: DATA,
    1: gzip.compress(DATA),
    2: bytes(cramjam.snappy.compress_raw(DATA)),
    3: bytes(cramjam.lz4.compress(DATA)),
    4: bytes(cramjam.zstd.compress(DATA)),
}


@pytest.fixture
def settings() -> dict[str, str]:
    return {"telemetry.max.bytes": "2000"}


async def alter(client: WireClient, name: str, **values: str | None) -> Any:
    changes = [
        {
            "name": key.replace("_", "."),
            "config_operation": DELETE if value is None else SET,
            "value": value,
        }
        for key, value in values.items()
    ]
    resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": changes}
    answer = await client.call("incremental_alter_configs", resources=[resource])
    return answer.responses[0]


async def describe(client: WireClient, name: str) -> Any:
    resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configuration_keys": None}
    return (await client.call("describe_configs", resources=[resource])).results[0]


async def ask(client: WireClient, instance_id: UUID | None = None) -> Any:
    return await client.call("get_telemetry_subscriptions", client_instance_id=instance_id)


async def push(client: WireClient, subscribed: Any, **words: Any) -> ErrorCode:
    request: dict[str, Any] = {
        "client_instance_id": subscribed.client_instance_id,
        "subscription_id": subscribed.subscription_id,
        "terminating": False,
        "compression_type": 0,
        "metrics": DATA,
        **words,
    }
    code: ErrorCode = (await client.call("push_telemetry", **request)).error_code
    return code


def pushed(broker: Node) -> dict[str, float]:
    return {
        name.metric: series.value
        for view in BrokerService(broker).client_metrics.figures(ANYONE).clients
        for name, series in view.series.items()
    }


async def test_without_a_subscription_nothing_is_asked_for(client: WireClient) -> None:
    answer = await ask(client)
    assert answer.error_code is ErrorCode.none
    assert answer.client_instance_id is not None
    assert answer.requested_metrics == ()
    assert answer.accepted_compression_types == (4, 3, 1, 2)
    assert answer.telemetry_max_bytes == 2_000
    assert not answer.delta_temporality
    assert answer.push_interval.total_seconds() == 300


@pytest.mark.parametrize("codec", PACKED)
async def test_a_client_is_told_and_pushes(client: WireClient, broker: Node, codec: int) -> None:
    told = await alter(client, "all", metrics=PREFIX, interval_ms="60000")
    assert told.error_code is ErrorCode.none
    await client.call(
        "api_versions", client_software_name="some-client", client_software_version="1.2"
    )
    answer = await ask(client)
    assert answer.requested_metrics == (PREFIX,)
    assert answer.push_interval.total_seconds() == 60
    code = await push(client, answer, compression_type=codec, metrics=PACKED[codec])
    assert code is ErrorCode.none
    assert pushed(broker) == {"queue": 1.5, "sent": 7.0}
    (view,) = BrokerService(broker).client_metrics.figures(ANYONE).clients
    assert view.client.client_id == "test"
    assert view.client.software == ClientSoftware("some-client", "1.2")
    assert view.client.port > 0


async def test_a_subscription_for_other_clients_is_not_for_this_one(client: WireClient) -> None:
    await alter(client, "others", metrics="*", match="client_id=somebody")
    await alter(client, "this", metrics="a", match="client_id=te.t,client_source_address=127.*")
    assert (await ask(client)).requested_metrics == ("a",)


async def test_too_much_and_too_often(client: WireClient, broker: Node) -> None:
    await alter(client, "all", metrics="*")
    answer = await ask(client)
    again = await ask(client, answer.client_instance_id)
    assert again.error_code is ErrorCode.throttling_quota_exceeded
    assert await push(client, answer, metrics=b"x" * 2_001) is ErrorCode.telemetry_too_large
    assert await push(client, answer) is ErrorCode.throttling_quota_exceeded
    assert await push(client, answer, terminating=True) is ErrorCode.none
    assert await push(client, answer) is ErrorCode.invalid_request
    assert pushed(broker) == {"queue": 1.5, "sent": 7.0}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({"subscription_id": 1}, ErrorCode.unknown_subscription_id),
        ({"compression_type": 5}, ErrorCode.unsupported_compression_type),
        ({"compression_type": -1}, ErrorCode.unsupported_compression_type),
        ({"client_instance_id": None}, ErrorCode.invalid_request),
        ({"metrics": b"nonsense"}, ErrorCode.invalid_record),
        ({"metrics": b"nonsense", "compression_type": 1}, ErrorCode.invalid_record),
        ({"metrics": b"nonsense", "compression_type": 2}, ErrorCode.invalid_record),
        ({"metrics": b"nonsense", "compression_type": 3}, ErrorCode.invalid_record),
        ({"metrics": b"nonsense", "compression_type": 4}, ErrorCode.invalid_record),
        ({"metrics": b""}, ErrorCode.none),
    ],
)
async def test_bad_pushes(
    client: WireClient, broker: Node, words: dict[str, Any], code: ErrorCode
) -> None:
    await alter(client, "all", metrics="*")
    assert await push(client, await ask(client), **words) is code
    assert pushed(broker) == {}


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
async def test_bombs_are_not_unpacked(client: WireClient, codec: int) -> None:
    bomb = bytes(1_000_000)
    packed = {
        1: lambda: gzip.compress(bomb),
        # Says how long it will be, and is believed by decoders that take room for it.
        2: lambda: b"\x80\x80\x80\x80\x04" + b"\x00",
        3: lambda: bytes(cramjam.lz4.compress(bytes(400_000))),
        4: lambda: bytes(cramjam.zstd.compress(bomb)),
    }[codec]()
    assert len(packed) <= 2_000
    await alter(client, "all", metrics="*")
    code = await push(client, await ask(client), compression_type=codec, metrics=packed)
    assert code is ErrorCode.telemetry_too_large


async def test_subscriptions_are_described_listed_and_deleted(
    client: WireClient, broker: Node
) -> None:
    await alter(client, "a", metrics="x,y", interval_ms="100")
    await alter(client, "b/c", match="client_id=z")
    told = {config.name: config for config in (await describe(client, "a")).configs}
    assert {name: (each.value, each.config_source) for name, each in told.items()} == {
        "interval.ms": ("100", 7),
        "match": ("", 5),
        "metrics": ("x,y", 7),
    }
    for version, words in ((0, {}), (1, {"resource_types": (CLIENT_METRICS,)})):
        answer = await client.call("list_config_resources", version, **words)
        assert {each.resource_name for each in answer.config_resources} == {"a", "b/c"}
    everything = await client.call("list_config_resources", resource_types=())
    kinds = {(each.resource_type, each.resource_name) for each in everything.config_resources}
    assert (CLIENT_METRICS, "a") in kinds
    assert (await alter(client, "a", metrics=None, interval_ms=None)).error_code is ErrorCode.none
    assert set(broker.image.client_metrics) == {"b/c"}
    assert (await describe(client, "a")).configs[0].config_source == 5


@pytest.mark.parametrize(
    ("name", "values", "code"),
    [
        ("", {"metrics": "a"}, ErrorCode.invalid_request),
        ("n" * 250, {"metrics": "a"}, ErrorCode.invalid_request),
        ("a", {"colour": "red"}, ErrorCode.invalid_request),
        ("a", {"interval_ms": "1"}, ErrorCode.invalid_request),
        ("a", {"match": "client_id=("}, ErrorCode.invalid_config),
    ],
)
async def test_bad_subscriptions(
    client: WireClient, broker: Node, name: str, values: dict[str, str], code: ErrorCode
) -> None:
    told = await alter(client, name, **values)
    assert told.error_code is code
    assert told.error_message
    configs = [{"name": key.replace("_", "."), "value": text} for key, text in values.items()]
    resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": configs}
    answer = await client.call("alter_configs", resources=[resource])
    assert answer.responses[0].error_code is code
    assert broker.image.client_metrics == {}
    if not name:
        assert (await describe(client, name)).error_code is ErrorCode.invalid_request


async def test_there_are_only_so_many_subscriptions(
    client: WireClient, broker: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.broker.client_metrics.configs.SUBSCRIPTIONS_MAX", 1)
    assert (await alter(client, "a", metrics="x")).error_code is ErrorCode.none
    assert (await alter(client, "b", metrics="x")).error_code is ErrorCode.policy_violation
    assert (await alter(client, "a", metrics="y")).error_code is ErrorCode.none
    assert set(broker.image.client_metrics) == {"a"}


async def test_what_is_known_of_a_connection_ends_with_it(
    client: WireClient, door: KafkaDoor
) -> None:
    other = await WireClient.connect(*door.address)
    await other.call("api_versions", client_software_name="x", client_software_version="1")
    other.close()
    assert (await ask(client)).error_code is ErrorCode.none


async def test_clients_are_offered_to_push_while_somebody_wants_it(client: WireClient) -> None:
    async def offered() -> set[int]:
        answer = await client.call(
            "api_versions", client_software_name="x", client_software_version="1"
        )
        return {api.api_key for api in answer.api_keys} & {71, 72}

    assert await offered() == set()
    await alter(client, "all", metrics="*")
    assert await offered() == {71, 72}
    await alter(client, "all", metrics=None)
    assert await offered() == set()
