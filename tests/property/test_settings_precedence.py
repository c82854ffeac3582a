"""Which value of a setting holds, whoever set it where: beside a plain walk through the places."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.topics.configs import (
    BrokerOverrides,
    broker_entries,
    effective_topic_config,
    running_config,
    topic_entries,
)
from goqueue.broker.topics.kafka_names import TOPIC_DEFAULTS, own_texts, topic_default_entries
from goqueue.model.broker_config import BROKER_SETTINGS, BrokerConfig, broker_config
from goqueue.model.configs import ConfigEntry, ConfigSource
from goqueue.model.settings import field_name
from goqueue.model.topic_config import TOPIC_SETTINGS

RUNNING = {
    "max.connections": ["1", "77"],
    "num.partitions": ["1", "9"],
    "auto.create.topics.enable": ["true", "false"],
    "group.max.size": ["5", "600"],
}
OF_TOPICS = {"log.retention.ms": ["1", "-1"], "message.max.bytes": ["77", "2000"]}


def chosen(names: Mapping[str, list[str]]) -> st.SearchStrategy[dict[str, str]]:
    kinds = {name: st.sampled_from(texts) for name, texts in names.items()}
    return st.fixed_dictionaries({}, optional=kinds)


def check(entry: ConfigEntry, places: list[tuple[ConfigSource, str | None]]) -> None:
    """`places` in the order in which they are looked through; the last always has a value."""
    held = [(source, text) for source, text in places if text is not None]
    assert (entry.source, entry.value) == held[0]
    assert [(each.source, each.value) for each in entry.synonyms] == held


@given(node=chosen(RUNNING), cluster=chosen(RUNNING), start=chosen(RUNNING))
def test_what_a_broker_goes_by(
    node: dict[str, str], cluster: dict[str, str], start: dict[str, str]
) -> None:
    config, overrides = broker_config(start), BrokerOverrides(node, cluster)
    entries = {entry.name: entry for entry in broker_entries(overrides, config, "")}
    running = running_config(overrides, config)
    for name in RUNNING:
        setting = BROKER_SETTINGS[name]
        default = setting.format(setting.default)
        given_at_start = start.get(name)
        places = [
            (ConfigSource.DYNAMIC_BROKER, node.get(name)),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, cluster.get(name)),
            (ConfigSource.STATIC_BROKER, None if given_at_start == default else given_at_start),
            (ConfigSource.DEFAULT, default),
        ]
        check(entries[name], places)
        assert not entries[name].read_only
        value = getattr(running, field_name(name))
        assert setting.format(value) == entries[name].value


@given(
    own=st.fixed_dictionaries({}, optional={"retention.ms": st.sampled_from(["3", "4"])}),
    node=chosen(OF_TOPICS),
    cluster=chosen(OF_TOPICS),
    start=chosen(OF_TOPICS),
)
def test_what_topics_go_by_under_kafkas_names(
    own: dict[str, str], node: dict[str, str], cluster: dict[str, str], start: dict[str, str]
) -> None:
    config = broker_config(own_texts(start, {}))
    overrides = BrokerOverrides(own_texts(node, {}), own_texts(cluster, {}))
    effective = effective_topic_config(own, overrides, config)
    of_topic = {entry.name: entry for entry in topic_entries(own, overrides, config)}
    broker = {entry.name: entry for entry in broker_entries(overrides, config, "")}
    by_kafkas_name = {entry.name: entry for entry in topic_default_entries(broker)}
    for kafka_name in OF_TOPICS:
        name = TOPIC_DEFAULTS[kafka_name]
        setting = TOPIC_SETTINGS[name]
        places = [
            (ConfigSource.DYNAMIC_BROKER, node.get(kafka_name)),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, cluster.get(kafka_name)),
            (ConfigSource.STATIC_BROKER, start.get(kafka_name)),
            (ConfigSource.DEFAULT, setting.format(setting.default)),
        ]
        check(by_kafkas_name[kafka_name], places)
        check(broker[f"topic.{name}"], places)
        check(of_topic[name], [(ConfigSource.TOPIC, own.get(name)), *places])
        assert {each.name for each in by_kafkas_name[kafka_name].synonyms} == {kafka_name}
        assert {each.name for each in of_topic[name].synonyms} <= {name, kafka_name}
        assert setting.format(getattr(effective, field_name(name))) == of_topic[name].value


def test_nothing_set_is_what_the_broker_was_started_with() -> None:
    config = BrokerConfig(max_connections=5)
    assert running_config(BrokerOverrides({}, {"topic.retention.ms": "1"}), config) is config
    unknown = {"of.a.later.release": "x", "max.connections": "6"}
    assert running_config(BrokerOverrides(unknown, {}), config).max_connections == 6
