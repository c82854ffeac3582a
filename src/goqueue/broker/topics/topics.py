"""Creating, growing, configuring and deleting topics: checks, then one metadata transaction."""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from goqueue.broker.topics.broker_configs import BrokerConfigs
from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.configs import apply_changes, effective_topic_config, topic_entries
from goqueue.broker.topics.following import MetadataFollower
from goqueue.broker.topics.growth import CreationPace, check_room
from goqueue.metadata.store import Compare, Delete, DeletePrefix, MetadataStore, Op, Put
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.configs import ConfigChange, ConfigEntry
from goqueue.model.errors import (
    Conflict,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopicName,
    PolicyViolation,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from goqueue.model.names import NodeId, PartitionIndex, TopicName, check_topic_name
from goqueue.model.rights import (
    AlterableTopic,
    ConfigurableTopic,
    CreatableTopic,
    DeletableTopic,
    DescribableTopic,
    InspectableTopic,
    InternalTopic,
)
from goqueue.model.topic_config import TOPIC_SETTINGS, TopicConfig, topic_config
from goqueue.model.topics import INTERNAL_TOPICS, NewTopic, PartitionView, TopicView
from goqueue.state import metadata_keys as keys

ChangeConfig = Callable[[Mapping[str, str]], Mapping[str, str]]


class TopicAdmin:
    def __init__(
        self,
        store: MetadataStore,
        follower: MetadataFollower,
        config: BrokerConfig,
        changes: KeyChanges,
        broker_configs: BrokerConfigs,
        new_id: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        self._store = store
        self._follower = follower
        self._config = config
        self._changes = changes
        self._broker_configs = broker_configs
        self._new_id = new_id
        self._pace = CreationPace(config.auto_create_topics_max_per_minute, time.monotonic)

    def find(self, name: str) -> TopicView:
        topic = self._follower.image.topics.get(name)
        if topic is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        return topic

    def find_by_id(self, topic_id: uuid.UUID) -> TopicView:
        topic = self._follower.image.topics_by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId(f"there is no topic with id {topic_id}")
        return topic

    def describe(self, topic: DescribableTopic) -> TopicView:
        return self.find(check_topic_name(topic))

    async def create(
        self, topic: CreatableTopic, new: NewTopic, *, validate_only: bool = False
    ) -> TopicView:
        """`new` says how; its name is that of the right."""
        name = check_topic_name(topic)
        if name in INTERNAL_TOPICS:
            raise PolicyViolation(f"topic {name!r} is made by the broker itself, when it needs it")
        return await self._make(name, self._assign(new), new.config, validate_only=validate_only)

    async def ensure_internal(
        self, topic: InternalTopic, *, partitions: int, config: Mapping[str, str]
    ) -> None:
        """Made by the broker alone: with other settings they would lose state."""
        with contextlib.suppress(TopicExists):
            await self._make(TopicName(topic), [self._default_replicas()] * partitions, config)

    async def _make(
        self,
        name: TopicName,
        assignments: Sequence[tuple[NodeId, ...]],
        config: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> TopicView:
        topic_config(config)
        image = self._follower.image
        if name in image.topics:
            # Who is told so may use it: not before this broker hosts it.
            await self._follower.applied(image.revision)
            raise TopicExists(f"topic {name!r} exists already")
        _check_collision(name, image.topics)
        if name not in INTERNAL_TOPICS:
            self._check_room(len(assignments))
        if validate_only:
            return _proposed(name, assignments, config)
        entries = keys.new_topic_entries(name, self._new_id(), assignments, dict(config))
        done = await self._store.transact(
            [Compare.missing(keys.topic_key(name))], [Put(*entry) for entry in entries]
        )
        if not done.succeeded:
            await self._follower.applied(done.revision)
            raise TopicExists(f"topic {name!r} exists already")
        await self._follower.applied(done.revision)
        return self.find(name)

    async def ensure(self, topic: CreatableTopic) -> TopicView:
        """The topic, made with the broker's defaults if it is not there and that is allowed."""
        known = self._follower.image.topics.get(topic)
        if known is not None:
            return known
        if topic in INTERNAL_TOPICS:
            raise UnknownTopic(
                f"there is no topic {topic!r} yet; the broker makes it on first need"
            )
        if not self._config.auto_create_topics_enable:
            raise UnknownTopic(f"there is no topic {topic!r}, and auto.create.topics.enable is off")
        check_topic_name(topic)
        self._pace.take(topic)
        with contextlib.suppress(TopicExists):
            return await self.create(topic, NewTopic(name=topic))
        return self.find(topic)

    async def delete(self, name: DeletableTopic) -> TopicView:
        """Returns what it was."""
        topic = self.find(name)
        if topic.is_internal:
            raise PolicyViolation(f"topic {name!r} belongs to the broker and cannot be deleted")
        key = keys.topic_key(name)
        done = await self._store.transact(
            [Compare.exists(key)], [Delete(key), DeletePrefix(keys.partitions_prefix(name))]
        )
        if not done.succeeded:
            raise UnknownTopic(f"there is no topic {name!r}")
        await self._follower.applied(done.revision)
        return topic

    async def create_partitions(
        self,
        name: AlterableTopic,
        total: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        topic = self.find(name)
        current = len(topic.partitions)
        if total <= current:
            raise InvalidPartitions(
                f"topic {name!r} has {current} partitions; {total} asked for is not more"
            )
        self._check_partition_count(total)
        if topic.is_internal:
            raise PolicyViolation(f"the partition count of {name!r} is fixed")
        added = total - current
        self._check_room(added)
        if assignments is not None and len(assignments) != added:
            raise InvalidReplicaAssignment(
                f"{added} partitions are added, but {len(assignments)} assignments given"
            )
        replicas = (
            [self._check_replicas(given) for given in assignments]
            if assignments is not None
            else [self._default_replicas()] * added
        )
        if validate_only:
            return

        def grow(value: keys.TopicValue) -> list[Op]:
            if value.partitions != current:
                raise Conflict(f"the partitions of {name!r} were changed at the same time")
            grown = keys.TopicValue(id=value.id, partitions=total, config=value.config)
            entries = [
                keys.topic_entry(name, grown),
                *keys.new_partition_entries(name, current, replicas),
            ]
            return [Put(*entry) for entry in entries]

        await self._change_topic(name, grow)

    async def alter_config(
        self,
        name: ConfigurableTopic,
        changes: Sequence[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change single settings. Whoever may make an SQS queue of a topic that is there already
        gives it the settings of the queue."""
        await self._set_config(
            name,
            lambda current: apply_changes(current, changes, TOPIC_SETTINGS),
            validate_only=validate_only,
        )

    async def replace_config(
        self, name: ConfigurableTopic, config: Mapping[str, str], *, validate_only: bool = False
    ) -> None:
        await self._set_config(name, lambda _: config, validate_only=validate_only)

    # --- settings as they are -------------------------------------------------------------

    def effective_config(self, topic: TopicView) -> TopicConfig:
        return effective_topic_config(topic.config, self._broker_configs.overrides, self._config)

    def describe_config(self, name: InspectableTopic) -> list[ConfigEntry]:
        own = self.find(check_topic_name(name)).config
        return topic_entries(own, self._broker_configs.overrides, self._config)

    # --- inside ---------------------------------------------------------------------------

    async def _set_config(
        self, name: str, change: ChangeConfig, *, validate_only: bool = False
    ) -> None:
        checked = change(self.find(name).config)
        topic_config(checked)
        if validate_only:
            return

        def configure(value: keys.TopicValue) -> list[Op]:
            texts = dict(change(value.config))
            topic_config(texts)
            configured = keys.TopicValue(id=value.id, partitions=value.partitions, config=texts)
            return [Put(*keys.topic_entry(name, configured))]

        await self._change_topic(name, configure)

    async def _change_topic(self, name: str, change: Callable[[keys.TopicValue], list[Op]]) -> None:
        key = keys.topic_key(name)

        def decide(value: bytes | None) -> list[Op]:
            if value is None:
                raise UnknownTopic(f"there is no topic {name!r}")
            return change(keys.decode_value(key, value, keys.TopicValue))

        await self._changes.change(key, decide)

    def _assign(self, new: NewTopic) -> list[tuple[NodeId, ...]]:
        if new.assignments is not None:
            if sorted(new.assignments) != list(range(len(new.assignments))) or not new.assignments:
                raise InvalidReplicaAssignment(
                    "replica assignments must name partitions 0, 1, 2, … without a gap"
                )
            self._check_partition_count(len(new.assignments))
            return [self._check_replicas(new.assignments[i]) for i in range(len(new.assignments))]
        count = self._config.num_partitions if new.partitions is None else new.partitions
        self._check_partition_count(count)
        brokers = len(self._follower.image.brokers) or 1
        if new.replication_factor is not None and not 1 <= new.replication_factor <= brokers:
            raise InvalidReplicationFactor(
                f"replication factor {new.replication_factor} is outside 1 to {brokers}, the "
                "number of brokers"
            )
        return [self._default_replicas()] * count

    def _check_partition_count(self, count: int) -> None:
        most = self._config.max_partitions_per_topic
        if not 1 <= count <= most:
            raise InvalidPartitions(f"partition count {count} is outside 1 to {most}")

    def _check_room(self, added: int) -> None:
        existing = sum(len(topic.partitions) for topic in self._follower.image.topics.values())
        check_room(existing, added, self._config.max_partitions_per_broker)

    def _default_replicas(self) -> tuple[NodeId, ...]:
        return (NodeId(self._config.node_id),)

    def _check_replicas(self, given: Sequence[int]) -> tuple[NodeId, ...]:
        replicas = tuple(NodeId(node) for node in given)
        known = self._follower.image.brokers.keys() | {NodeId(self._config.node_id)}
        if not replicas or len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignment(f"replicas {list(given)} are empty or named twice")
        for node in replicas:
            if node not in known:
                raise InvalidReplicaAssignment(f"replica {node} is no known broker")
        return replicas


def _check_collision(name: str, others: Iterable[str]) -> None:
    """Metrics write '.' and '_' alike, so Kafka takes only one of such names; so do we."""
    if "." not in name and "_" not in name:
        return
    plain = name.replace(".", "_")
    for other in others:
        if other.replace(".", "_") == plain:
            raise InvalidTopicName(f"topic name {name!r} collides with {other!r} ('.' and '_')")


def _proposed(
    name: TopicName, assignments: Sequence[tuple[NodeId, ...]], config: Mapping[str, str]
) -> TopicView:
    partitions = tuple(
        PartitionView(PartitionIndex(index), keys.new_partition(replicas), 0)
        for index, replicas in enumerate(assignments)
    )
    return TopicView(name, uuid.UUID(int=0), partitions, dict(config))
