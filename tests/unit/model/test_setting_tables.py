"""Typed settings: parsing, limits, and the two tables."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.broker_config import BROKER_SETTINGS, BrokerConfig, broker_config
from goqueue.model.errors import InvalidConfig
from goqueue.model.groups.config import GROUP_SETTINGS, GroupConfig
from goqueue.model.settings import Setting, SettingTable, SettingType, Value, field_name
from goqueue.model.topic_config import TOPIC_SETTINGS, TopicConfig, topic_config

ALL_SETTINGS = [*BROKER_SETTINGS.values(), *TOPIC_SETTINGS.values()]


@pytest.mark.parametrize("setting", ALL_SETTINGS, ids=lambda setting: setting.name)
def test_every_default_is_a_value_the_setting_accepts(setting: Setting) -> None:
    assert setting.parse(setting.format(setting.default)) == setting.default
    assert setting.doc.endswith(".")


def test_no_two_names_differ_by_a_plural() -> None:
    """Who reads one for the other would set the wrong limit."""
    names = [name.replace("s.", ".").removesuffix("s") for name in BROKER_SETTINGS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (SettingType.BOOLEAN, " TRUE ", True),
        (SettingType.BOOLEAN, "false", False),
        (SettingType.INT, " 42 ", 42),
        (SettingType.LONG, "-1", -1),
        (SettingType.DOUBLE, "0.5", 0.5),
        (SettingType.STRING, "text", "text"),
        (SettingType.LIST, "a, b ,,c", ("a", "b", "c")),
        (SettingType.LIST, "", ()),
    ],
)
def test_text_becomes_a_typed_value(type_: SettingType, text: str, value: Value) -> None:
    assert Setting(name="x", type=type_, default=value, doc="").parse(text) == value


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("retention.ms", "soon", "retention.ms: 'soon' is not a valid long"),
        ("retention.ms", "-2", "retention.ms: -2 is below the minimum -1"),
        (
            "retention.ms",
            str(10**30),
            "10+ is not a valid long: .* to 9223372036854775807",
        ),
        ("retention.bytes", str(2**63), "retention.bytes: .* is not a valid long"),
        ("min.cleanable.dirty.ratio", "nan", "is not a valid double"),
        ("segment.bytes", str(2**31), "segment.bytes: 2147483648 is above the maximum"),
        ("cleanup.policy", "delete,shred", "cleanup.policy: 'shred' is not one of"),
        ("fsync.policy", "sometimes", "fsync.policy: 'sometimes' is not one of"),
        ("min.cleanable.dirty.ratio", "1.5", "above the maximum"),
        ("retention.msec", "1", "retention.msec: no such setting"),
    ],
)
def test_bad_values_are_refused_by_name_and_limit(name: str, text: str, reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        topic_config({name: text})


def test_a_stored_number_of_any_size_is_read_as_the_nearest_that_is_allowed() -> None:
    stored = {"retention.ms": str(10**30), "cleanup.policy": "delete", "gone": "1"}
    assert TOPIC_SETTINGS.clamped(stored) == {**stored, "retention.ms": str(2**63 - 1)}


def test_topic_settings_override_the_brokers_defaults() -> None:
    defaults = broker_config({"topic.retention.ms": "1000", "topic.segment.bytes": "2000"})
    config = topic_config({"retention.ms": "5"}, defaults.topic_defaults)
    assert config.retention_ms == 5
    assert config.segment_bytes == 2000
    assert config.flush_ms == 1000


def test_cleanup_policy_is_readable() -> None:
    assert topic_config({}).is_deleted_by_retention
    both = topic_config({"cleanup.policy": "compact,delete"})
    assert both.is_compacted
    assert both.is_deleted_by_retention


def test_lags_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms"):
        topic_config({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


@given(port=st.integers(0, 65535), node_id=st.integers(0, 2**31 - 1))
def test_broker_settings_become_fields(port: int, node_id: int) -> None:
    config = broker_config({"kafka.port": str(port), "node.id": str(node_id)})
    assert (config.kafka_port, config.node_id) == (port, node_id)


def test_unknown_broker_setting_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"kafka\.prt: no such setting"):
        broker_config({"kafka.prt": "1"})


def test_table_is_a_mapping_of_unique_names() -> None:
    settings = list(TOPIC_SETTINGS.values())
    table = SettingTable(settings)
    assert len(table) == len(settings)
    assert list(table) == [setting.name for setting in settings]
    assert "retention.ms" in table


@pytest.mark.parametrize(
    ("config", "table", "others"),
    [
        (BrokerConfig, BROKER_SETTINGS, {"topic_defaults"}),
        (TopicConfig, TOPIC_SETTINGS, set()),
        (GroupConfig, GROUP_SETTINGS, set()),
    ],
)
def test_every_field_is_a_setting(config: type, table: SettingTable, others: set[str]) -> None:
    assert {field_name(name) for name in table} | others == {
        each.name for each in dataclasses.fields(config)
    }


def test_without_a_word_the_defaults_of_the_table_hold() -> None:
    config = broker_config({})

    for name, setting in BROKER_SETTINGS.items():
        assert setting.format(setting.default) == setting.format(
            str(config.data_dir) if name == "data.dir" else getattr(config, field_name(name))
        )
