"""Settings of running brokers by Kafka's own names, as admin clients and tools set them."""

import re
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import admin as admin_module
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import admin as python_admin

# Their names are re-exports that the type checker does not see.
confluent: Any = admin_module
python: Any = python_admin

TIMEOUT_SECONDS = 60
DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, DEFAULT = 2, 3, 5


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def broker(admin: AdminClient) -> str:
    return str(min(admin.list_topics(timeout=TIMEOUT_SECONDS).brokers))


def alter(admin: AdminClient, broker: str, name: str, value: str | None) -> None:
    kind = confluent.AlterConfigOpType
    entry = confluent.ConfigEntry(
        name=name,
        value=value,
        incremental_operation=kind.DELETE if value is None else kind.SET,
    )
    resource = confluent.ConfigResource(
        confluent.ConfigResource.Type.BROKER, broker, incremental_configs=[entry]
    )
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_SECONDS)


def describe(admin: AdminClient, broker: str) -> dict[str, Any]:
    resource = confluent.ConfigResource(confluent.ConfigResource.Type.BROKER, broker)
    found: dict[str, Any] = admin.describe_configs([resource])[resource].result(TIMEOUT_SECONDS)
    return found


def test_librdkafka_sets_and_takes_back(admin: AdminClient, broker: str) -> None:
    name = "log.retention.ms"
    before = describe(admin, broker)[name]
    assert (before.source, before.is_read_only) == (DEFAULT, False)
    alter(admin, broker, name, "86400000")
    told = describe(admin, broker)[name]
    assert (told.value, told.source) == ("86400000", DYNAMIC_BROKER)
    assert set(told.synonyms) == {name}
    alter(admin, broker, name, None)
    assert describe(admin, broker)[name].value == before.value
    alter(admin, broker, "max.connections", "9999")
    assert describe(admin, broker)["max.connections"].source == DYNAMIC_BROKER
    alter(admin, broker, "max.connections", None)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("listeners", "PLAINTEXT://:1", "INVALID_REQUEST"),
        ("message.max.bytes", "large", "INVALID_CONFIG"),
        ("no.such.thing", "1", "INVALID_CONFIG"),
    ],
)
def test_refusals_name_the_setting(
    admin: AdminClient, broker: str, name: str, value: str, code: str
) -> None:
    with pytest.raises(KafkaException, match=re.escape(f"{name}: ")) as refused:
        alter(admin, broker, name, value)
    assert refused.value.args[0].name() == code


def test_kafka_python_sets_them_and_subscribes_to_client_metrics(
    bootstrap: str, broker: str
) -> None:
    admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap)
    kinds = python.ConfigResourceType
    of_broker = python.ConfigResource(kinds.BROKER, broker, {"num.partitions": "4"})
    admin.alter_configs([of_broker])
    asked = python.ConfigResource(kinds.BROKER, broker)
    told = admin.describe_configs([asked])["broker"][broker]
    assert told["num.partitions"]["value"] == "4"
    assert told["num.partitions"]["config_source"] == "DYNAMIC_BROKER_CONFIG"
    taken_back = {"num.partitions": ("DELETE", None)}
    admin.alter_configs([python.ConfigResource(kinds.BROKER, broker, taken_back)])

    fixed = python.ConfigResource(kinds.BROKER, broker, {"broker.id": "9"})
    with pytest.raises(ValueError, match="Unrecognized configs"):
        admin.alter_configs([fixed])
    told = admin.alter_configs([fixed], raise_on_unknown=False)["broker"][broker]
    assert "broker.id: cannot be changed at run time" in told

    # The way before single changes: everything is told back, with what is new.
    of_broker = python.ConfigResource(kinds.BROKER, broker, {"log.segment.bytes": "1000000"})
    admin.alter_configs([of_broker])
    for size in ("2000000", "3000000"):
        of_broker = python.ConfigResource(kinds.BROKER, broker, {"log.segment.bytes": size})
        told = admin.alter_configs([of_broker], incremental=False)["broker"][broker]
        told = admin.describe_configs([asked])["broker"][broker]
        assert told["log.segment.bytes"]["value"] == size
    taken_back = {"log.segment.bytes": ("DELETE", None)}
    admin.alter_configs([python.ConfigResource(kinds.BROKER, broker, taken_back)])

    name = "from-kafka-python"
    settings = {"interval.ms": "60000", "metrics": "org.apache.kafka.producer."}
    admin.alter_configs([python.ConfigResource(kinds.CLIENT_METRICS, name, settings)])
    subscription = python.ConfigResource(kinds.CLIENT_METRICS, name)
    told = admin.describe_configs([subscription])["client_metrics"][name]
    assert {key: each["value"] for key, each in told.items()} == settings
    deleted = dict.fromkeys(settings, ("DELETE", None))
    admin.alter_configs([python.ConfigResource(kinds.CLIENT_METRICS, name, deleted)])
    admin.close()
