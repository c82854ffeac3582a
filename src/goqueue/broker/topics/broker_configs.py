"""Settings of brokers at run time: changed, and described."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from goqueue.broker.topics.changing import ChangeTexts, KeyChanges
from goqueue.broker.topics.configs import (
    HTTP_URL,
    NO_OVERRIDES,
    BrokerOverrides,
    apply_changes,
    broker_entries,
    effective_topic_config,
    running_config,
)
from goqueue.broker.topics.following import MetadataFollower
from goqueue.broker.topics.kafka_names import (
    FOLLOWING_NAMES,
    following_entries,
    own_changes,
    own_texts,
    topic_default_entries,
)
from goqueue.model.broker_config import BROKER_SETTINGS, TOPIC_DEFAULT_PREFIX, BrokerConfig
from goqueue.model.cluster_config import CORDONED_LOG_DIRS, check_cordoned
from goqueue.model.configs import ConfigChange, ConfigEntry, ConfigSource
from goqueue.model.digits import number_in
from goqueue.model.errors import InvalidConfig, InvalidRequest, UnknownBroker
from goqueue.model.names import NodeId
from goqueue.model.rights import ConfigurableCluster, InspectableCluster
from goqueue.model.runtime_config import DYNAMIC_BROKER_SETTINGS, check_running
from goqueue.model.settings import Value
from goqueue.model.topic_config import CHECKED_TOGETHER
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.feature_levels import Feature

Listener = Callable[[BrokerConfig], None]
_OF_GROUPS: Final = "group."


class BrokerConfigs:
    """A broker is named by its number; the empty name means all brokers.

    What holds is looked for in the broker's own settings, those of all brokers, those it was
    started with and the table, in this order.
    """

    def __init__(
        self, changes: KeyChanges, follower: MetadataFollower, config: BrokerConfig
    ) -> None:
        self._changes = changes
        self._follower = follower
        self._config = config
        self._node_id = NodeId(config.node_id)
        self._listeners: list[Listener] = []
        self._running = (NO_OVERRIDES, config)

    @property
    def overrides(self) -> BrokerOverrides:
        return self._overrides_of(self._node_id)

    def _overrides_of(self, node_id: NodeId) -> BrokerOverrides:
        image = self._follower.image
        return BrokerOverrides(image.broker_config(node_id), image.broker_config(None))

    # --- what holds now -------------------------------------------------------------------

    @property
    def running(self) -> BrokerConfig:
        """This broker's settings as they hold now."""
        overrides = self.overrides
        if overrides != self._running[0]:
            self._running = (overrides, running_config(overrides, self._config))
        return self._running[1]

    def follow(self, listener: Listener) -> None:
        """Tell `listener` what holds, now and whenever something was changed."""
        self._listeners.append(listener)
        listener(self.running)

    def changed(self) -> None:
        for listener in self._listeners:
            listener(self.running)

    # --- describing -----------------------------------------------------------------------

    def describe(self, _cluster: InspectableCluster, broker: str) -> list[ConfigEntry]:
        node_id = self._known(broker)
        image = self._follower.image
        shown = self._node_id if node_id is None else node_id
        reached = image.brokers.get(shown)
        url = "" if reached is None else reached.http_url
        entries = broker_entries(self._overrides_of(shown), self._config, url)
        by_name = {entry.name: entry for entry in entries}
        entries += topic_default_entries(by_name)
        if node_id is None:
            return _cluster_wide(entries)
        if node_id != self._node_id:
            return _set_at_run_time(entries)
        advertised = None if reached is None else (reached.host, reached.kafka_port)
        return [*entries, *following_entries(by_name, self._config, advertised)]

    # --- changing -------------------------------------------------------------------------

    async def alter(
        self,
        _cluster: ConfigurableCluster,
        broker: str,
        changes: Sequence[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        _check_changeable(change.name for change in changes)
        owned = own_changes(changes)
        await self._set(
            broker,
            lambda current: apply_changes(current, owned, DYNAMIC_BROKER_SETTINGS),
            validate_only=validate_only,
        )

    async def replace(
        self,
        _cluster: ConfigurableCluster,
        broker: str,
        config: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> None:
        _check_changeable(config)
        await self._set(
            broker, lambda current: own_texts(config, current), validate_only=validate_only
        )

    async def _set(self, broker: str, change: ChangeTexts, *, validate_only: bool) -> None:
        node_id = self._known(broker)

        def checked(current: Mapping[str, str]) -> Mapping[str, str]:
            texts = change(current)
            self._check_cordoned(node_id, DYNAMIC_BROKER_SETTINGS.parse(texts))
            self._check_together(node_id, texts)
            return texts

        stored = partial(keys.broker_config_entry, node_id)
        await self._changes.change_texts(
            stored, checked, Feature.BROKER_SETTINGS, validate_only=validate_only
        )

    def _check_cordoned(self, node_id: NodeId | None, values: Mapping[str, Value]) -> None:
        items = values.get(CORDONED_LOG_DIRS)
        if items is None:
            return
        if node_id is None:
            raise InvalidConfig(f"{CORDONED_LOG_DIRS}: set it of one broker, not of all")
        assert isinstance(items, tuple)
        check_cordoned(items, self._config.data_dir if node_id == self._node_id else None)

    def _check_together(self, node_id: NodeId | None, texts: Mapping[str, str]) -> None:
        """A broker that could not make sense of all of it would go on with what held before."""
        image = self._follower.image
        if node_id is None:
            own = [of for each, of in image.broker_configs.items() if each is not None]
            # Most brokers say nothing of their own, or will not later on.
            after = [BrokerOverrides(of, texts) for of in ({}, *own)]
        else:
            after = [BrokerOverrides(texts, image.broker_config(None))]
        if any(name.startswith(_OF_GROUPS) for name in texts):
            for overrides in after:
                check_running(running_config(overrides, self._config))
        if not any(name.startswith(TOPIC_DEFAULT_PREFIX) for name in texts):
            return
        of_topics = {
            tuple((name, topic.config[name]) for name in CHECKED_TOGETHER if name in topic.config)
            for topic in image.topics.values()
        }
        for overrides in after:
            for said in {(), *of_topics}:
                effective_topic_config(dict(said), overrides, self._config)

    def _known(self, broker: str) -> NodeId | None:
        """None for all brokers."""
        if not broker:
            return None
        number = number_in(broker.removeprefix("-"))
        if number is None:
            raise InvalidRequest(f"broker id must be an integer, but it is {broker!r}")
        node_id = NodeId(number)
        image = self._follower.image
        is_known = node_id == self._node_id or node_id in image.brokers or node_id in image.nodes
        if not is_known or broker.startswith("-"):
            raise UnknownBroker(f"there is no broker {broker}; this is broker {self._node_id}")
        return node_id


def _check_changeable(names: Iterable[str]) -> None:
    """Kafka says so, too, instead of taking the name for one of a plug-in."""
    fixed = [
        name
        for name in names
        if name in FOLLOWING_NAMES
        or name == HTTP_URL.name
        or (name in BROKER_SETTINGS and name not in DYNAMIC_BROKER_SETTINGS)
    ]
    if fixed:
        raise InvalidRequest(
            f"{', '.join(fixed)}: cannot be changed at run time, only when the broker starts"
        )


def _set_at_run_time(entries: Sequence[ConfigEntry]) -> list[ConfigEntry]:
    """What is known of another broker: its own file is read by that broker alone."""
    dynamic = (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER)
    return [entry for entry in entries if entry.source in dynamic]


def _cluster_wide(entries: Sequence[ConfigEntry]) -> list[ConfigEntry]:
    """The settings made for all brokers at run time."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [
        replace(entry, value=synonym.value, source=source, synonyms=(synonym,))
        for entry in entries
        for synonym in entry.synonyms
        if synonym.source is source
    ]
