"""Settings of topics and brokers: which value holds, where it comes from, how it is changed.

Pure. A topic's setting is looked for in the topic, this broker's dynamic settings, the cluster's
dynamic defaults, this broker's start-up settings and the table, in this order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from goqueue.broker.topics.kafka_names import KAFKA_NAMES
from goqueue.model.broker_config import (
    BROKER_SETTINGS,
    CLUSTER_DEFAULTS,
    TOPIC_DEFAULT_PREFIX,
    BrokerConfig,
)
from goqueue.model.cluster_config import CORDONED_LOG_DIRS
from goqueue.model.configs import ConfigChange, ConfigEntry, ConfigOp, ConfigSource, ConfigSynonym
from goqueue.model.errors import InvalidConfig, InvalidRequest
from goqueue.model.layouts import LAYOUT_SETTING, Split, layout_text
from goqueue.model.replication_config import THROTTLE_SETTINGS
from goqueue.model.runtime_config import (
    DYNAMIC_BROKER_SETTINGS,
    RUNTIME_SETTINGS,
    TOPIC_DEFAULT_SETTINGS,
)
from goqueue.model.settings import (
    Setting,
    SettingTable,
    SettingType,
    Value,
    field_name,
    field_values,
)
from goqueue.model.topic_config import TOPIC_SETTINGS, TopicConfig, topic_config

# Not to be set: it follows from the host and the port listened on. Clients of the Kafka port find
# the registry and the other HTTP services by it.
HTTP_URL = Setting(
    name="advertised.http.url",
    type=SettingType.STRING,
    default="",
    doc="Where this broker answers HTTP.",
)

# Not to be set either: clients find by it which partitions to read before which.
LAYOUT = Setting(
    name=LAYOUT_SETTING,
    type=SettingType.STRING,
    default="",
    doc="How the topic came to its partitions, as JSON.",
)


class BrokerOverrides(NamedTuple):
    """Dynamic settings from the metadata: this broker's own, and the cluster's defaults."""

    node: Mapping[str, str]
    cluster: Mapping[str, str]


NO_OVERRIDES: Final = BrokerOverrides({}, {})


def running_config(overrides: BrokerOverrides, config: BrokerConfig) -> BrokerConfig:
    """What a broker was started with, and over it what was set since."""
    values: dict[str, Value] = {}
    for texts in (overrides.cluster, overrides.node):
        known = {name: text for name, text in texts.items() if name in RUNTIME_SETTINGS}
        values.update(RUNTIME_SETTINGS.parse(RUNTIME_SETTINGS.clamped(known)))
    return replace(config, **field_values(values)) if values else config


def effective_topic_config(
    own: Mapping[str, str], overrides: BrokerOverrides, config: BrokerConfig
) -> TopicConfig:
    defaults: dict[str, Value] = dict(config.topic_defaults)
    for texts in (overrides.cluster, overrides.node):
        defaults.update(TOPIC_SETTINGS.parse(TOPIC_SETTINGS.clamped(_for_topics(texts))))
    return topic_config(TOPIC_SETTINGS.clamped(own), defaults)


def topic_entries(
    own: Mapping[str, str], overrides: BrokerOverrides, config: BrokerConfig
) -> list[ConfigEntry]:
    entries = []
    for name, setting in TOPIC_SETTINGS.items():
        synonyms = []
        if name in own:
            synonyms.append(ConfigSynonym(name, own[name], ConfigSource.TOPIC))
        defaults = _default_synonyms(name, setting, overrides, config)
        kafka_name = KAFKA_NAMES.get(name)
        if kafka_name is not None:
            defaults = [synonym._replace(name=kafka_name) for synonym in defaults]
        entries.append(entry(setting, [*synonyms, *defaults], read_only=False))
    return entries


def broker_entries(
    overrides: BrokerOverrides, config: BrokerConfig, http_url: str
) -> list[ConfigEntry]:
    reached = ConfigSynonym(HTTP_URL.name, http_url, ConfigSource.STATIC_BROKER)
    entries = [entry(HTTP_URL, [reached], read_only=True)]
    for name, setting in BROKER_SETTINGS.items():
        value = setting.format(_plain(getattr(config, field_name(name))))
        default = _default_text(setting, config)
        synonyms = []
        if name in RUNTIME_SETTINGS:
            synonyms = _set_at_run_time(name, overrides)
        elif name == CORDONED_LOG_DIRS:
            synonyms = _set_at_run_time(name, overrides._replace(cluster={}))
        if value != default:
            synonyms.append(ConfigSynonym(name, value, ConfigSource.STATIC_BROKER))
        synonyms.append(ConfigSynonym(name, default, ConfigSource.DEFAULT))
        entries.append(entry(setting, synonyms, read_only=name not in DYNAMIC_BROKER_SETTINGS))
    for name, setting in TOPIC_DEFAULT_SETTINGS.items():
        topic_name = name.removeprefix(TOPIC_DEFAULT_PREFIX)
        synonyms = _default_synonyms(topic_name, setting, overrides, config)
        entries.append(entry(setting, synonyms, read_only=False))
    for setting in THROTTLE_SETTINGS.values():
        default = setting.format(setting.default)
        synonyms = _set_at_run_time(setting.name, overrides)
        synonyms.append(ConfigSynonym(setting.name, default, ConfigSource.DEFAULT))
        entries.append(entry(setting, synonyms, read_only=False))
    return entries


def apply_changes(
    current: Mapping[str, str], changes: Sequence[ConfigChange], table: SettingTable
) -> dict[str, str]:
    """The texts after the changes, each checked; nothing is changed on the first bad one."""
    texts = dict(current)
    seen: set[str] = set()
    for change in changes:
        if change.name in seen:
            raise InvalidRequest(f"{change.name}: named twice in one request")
        seen.add(change.name)
        setting = table.get(change.name)
        if setting is None:
            raise InvalidConfig(f"{change.name}: no such setting, or it cannot be changed")
        if change.op is ConfigOp.DELETE:
            texts.pop(change.name, None)
            continue
        if change.value is None:
            raise InvalidConfig(f"{change.name}: a value is needed")
        texts[change.name] = _changed_text(setting, texts.get(change.name), change)
        setting.parse(texts[change.name])
    return texts


def _changed_text(setting: Setting, current: str | None, change: ConfigChange) -> str:
    value = str(change.value)
    if change.op is ConfigOp.SET:
        return value
    if setting.type is not SettingType.LIST:
        raise InvalidConfig(f"{setting.name}: append and subtract work on lists only")
    items = _items(setting.format(setting.default) if current is None else current)
    given = _items(value)
    if change.op is ConfigOp.APPEND:
        return ",".join([*items, *(item for item in given if item not in items)])
    return ",".join(item for item in items if item not in given)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _for_topics(texts: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(TOPIC_DEFAULT_PREFIX): text
        for name, text in texts.items()
        if name.startswith(TOPIC_DEFAULT_PREFIX)
    }


def _default_synonyms(
    topic_name: str, setting: Setting, overrides: BrokerOverrides, config: BrokerConfig
) -> list[ConfigSynonym]:
    name = TOPIC_DEFAULT_PREFIX + topic_name
    synonyms = _set_at_run_time(name, overrides)
    default = _default_text(replace(setting, name=name), config)
    if topic_name in config.topic_defaults:
        text = setting.format(config.topic_defaults[topic_name])
        if text != default:
            synonyms.append(ConfigSynonym(name, text, ConfigSource.STATIC_BROKER))
    return [*synonyms, ConfigSynonym(name, default, ConfigSource.DEFAULT)]


def _default_text(setting: Setting, config: BrokerConfig) -> str:
    """What holds where nothing is set; some of it is another value in a cluster."""
    if config.cluster and setting.name in CLUSTER_DEFAULTS:
        return CLUSTER_DEFAULTS[setting.name]
    return setting.format(setting.default)


def _set_at_run_time(name: str, overrides: BrokerOverrides) -> list[ConfigSynonym]:
    synonyms = []
    if name in overrides.node:
        synonyms.append(ConfigSynonym(name, overrides.node[name], ConfigSource.DYNAMIC_BROKER))
    if name in overrides.cluster:
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER
        synonyms.append(ConfigSynonym(name, overrides.cluster[name], source))
    return synonyms


def entry(setting: Setting, synonyms: Iterable[ConfigSynonym], *, read_only: bool) -> ConfigEntry:
    ordered = tuple(each._replace(value="") if setting.is_secret else each for each in synonyms)
    return ConfigEntry(
        name=setting.name,
        value=ordered[0].value,
        source=ordered[0].source,
        read_only=read_only,
        type=setting.type,
        doc=setting.doc,
        synonyms=ordered,
        is_sensitive=setting.is_secret,
    )


def layout_entries(splits: tuple[Split, ...]) -> list[ConfigEntry]:
    """Of a topic that was split; others say nothing of it."""
    if not splits:
        return []
    told = ConfigSynonym(LAYOUT.name, layout_text(splits), ConfigSource.DEFAULT)
    return [entry(LAYOUT, [told], read_only=True)]


def _plain(value: object) -> Value:
    return value if isinstance(value, bool | int | float | tuple) else str(value)
