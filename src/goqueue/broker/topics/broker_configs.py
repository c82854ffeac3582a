"""Settings of brokers at run time: changed, and described."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.configs import (
    DYNAMIC_BROKER_SETTINGS,
    BrokerOverrides,
    apply_changes,
    broker_entries,
)
from goqueue.broker.topics.following import MetadataFollower
from goqueue.broker.topics.kafka_names import kafka_entries
from goqueue.metadata.store import Op, Put
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.cluster_config import CORDONED_LOG_DIRS, check_cordoned
from goqueue.model.configs import ConfigChange, ConfigEntry, ConfigSource
from goqueue.model.digits import number_in
from goqueue.model.errors import InvalidConfig, InvalidRequest
from goqueue.model.names import NodeId
from goqueue.model.rights import ConfigurableCluster, InspectableCluster
from goqueue.model.settings import Value
from goqueue.state import metadata_keys as keys


class BrokerConfigs:
    """A broker is named by its number; the empty name means all brokers."""

    def __init__(
        self, changes: KeyChanges, follower: MetadataFollower, config: BrokerConfig
    ) -> None:
        self._changes = changes
        self._follower = follower
        self._config = config
        self._node_id = NodeId(config.node_id)

    @property
    def overrides(self) -> BrokerOverrides:
        image = self._follower.image
        return BrokerOverrides(image.broker_config(self._node_id), image.broker_config(None))

    def describe(self, _cluster: InspectableCluster, broker: str) -> list[ConfigEntry]:
        node_id = self._known(broker)
        if node_id not in (None, self._node_id):
            return self._of_other(node_id)
        reached = self._follower.image.brokers.get(self._node_id)
        url = "" if reached is None else reached.http_url
        entries = broker_entries(self.overrides, self._config, url)
        if node_id is None:
            return _cluster_wide(entries)
        by_name = {entry.name: entry for entry in entries}
        advertised = None if reached is None else (reached.host, reached.kafka_port)
        return [*entries, *kafka_entries(by_name, self._config, advertised)]

    def _of_other(self, node_id: NodeId) -> list[ConfigEntry]:
        """What was set at run time: a broker's own file is read by that broker alone."""
        image = self._follower.image
        overrides = BrokerOverrides(image.broker_config(node_id), image.broker_config(None))
        reached = image.brokers.get(node_id)
        url = "" if reached is None else reached.http_url
        dynamic = (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER)
        entries = broker_entries(overrides, self._config, url)
        return [entry for entry in entries if entry.source in dynamic]

    async def alter(
        self,
        _cluster: ConfigurableCluster,
        broker: str,
        changes: Sequence[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        await self._set(
            broker,
            lambda current: apply_changes(current, changes, DYNAMIC_BROKER_SETTINGS),
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
        await self._set(broker, lambda _: config, validate_only=validate_only)

    async def _set(
        self,
        broker: str,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        *,
        validate_only: bool,
    ) -> None:
        node_id = self._known(broker)
        key = keys.broker_config_key(node_id)

        def configure(value: bytes | None) -> list[Op]:
            current = {} if value is None else keys.decode_value(key, value, dict[str, str])
            texts = dict(change(current))
            self._check_cordoned(node_id, DYNAMIC_BROKER_SETTINGS.parse(texts))
            return [Put(*keys.broker_config_entry(node_id, texts))]

        if validate_only:
            await self._changes.check(key, configure)
        else:
            await self._changes.change(key, configure)

    def _check_cordoned(self, node_id: NodeId | None, values: Mapping[str, Value]) -> None:
        items = values.get(CORDONED_LOG_DIRS)
        if items is None:
            return
        if node_id is None:
            raise InvalidConfig(f"{CORDONED_LOG_DIRS}: set it of one broker, not of all")
        assert isinstance(items, tuple)
        check_cordoned(items, self._config.data_dir if node_id == self._node_id else None)

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
            raise InvalidRequest(f"there is no broker {broker}; this is broker {self._node_id}")
        return node_id


def _cluster_wide(entries: Sequence[ConfigEntry]) -> list[ConfigEntry]:
    """The settings made for all brokers at run time."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [
        replace(entry, value=synonym.value, source=source, synonyms=(synonym,))
        for entry in entries
        for synonym in entry.synonyms
        if synonym.source is source
    ]
