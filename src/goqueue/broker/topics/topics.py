"""Creating, growing, configuring and deleting topics: checks, then one metadata transaction."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from goqueue.broker.topics.broker_configs import BrokerConfigs
from goqueue.broker.topics.changing import AGAIN_S, TRANSACTION_TRIES
from goqueue.broker.topics.companions import check_change, companion_settings, settings_said
from goqueue.broker.topics.configs import (
    BrokerOverrides,
    apply_changes,
    effective_topic_config,
    layout_entries,
    topic_entries,
)
from goqueue.broker.topics.following import MetadataFollower
from goqueue.broker.topics.growth import CreationPace
from goqueue.broker.topics.placing import NewPartitions, Placing
from goqueue.broker.topics.splitting import ORDERED, next_splits
from goqueue.broker.topics.storing import ChangedPartition, store_settings, store_topic
from goqueue.metadata.store import (
    Compare,
    Delete,
    DeletePrefix,
    KeyValue,
    MetadataStore,
    Op,
    TxnResult,
)
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.companions import KINDS, companion_of, kind_and_owner
from goqueue.model.configs import ConfigChange, ConfigEntry
from goqueue.model.errors import (
    Conflict,
    InvalidPartitions,
    InvalidTopicName,
    PolicyViolation,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from goqueue.model.layouts import Split
from goqueue.model.names import PartitionIndex, TopicName, check_topic_name
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
from goqueue.model.topics import NewTopic, PartitionView, TopicView, is_internal
from goqueue.state import metadata_keys as keys
from goqueue.state.controller.commit_settings import CommitSettings, following
from goqueue.state.controller.placement import Replicas
from goqueue.state.membership.feature_levels import Feature, first_use, first_use_in

ChangeConfig = Callable[[Mapping[str, str]], Mapping[str, str]]
Place = Callable[[Placing], list[Replicas]]

# Different settings of topics that are kept parsed, some kilobytes each.
EFFECTIVE_MAX: Final = 1_000


class TopicAdmin:
    def __init__(
        self,
        store: MetadataStore,
        follower: MetadataFollower,
        config: BrokerConfig,
        broker_configs: BrokerConfigs,
        new_id: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        self._store = store
        self._follower = follower
        self._config = config
        self._broker_configs = broker_configs
        self._new_id = new_id
        # By what topics say themselves; under these settings of brokers.
        self._effective: dict[tuple[tuple[str, str], ...], TopicConfig] = {}
        self._effective_under: BrokerOverrides | None = None
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
        if is_internal(name):
            raise PolicyViolation(f"topic {name!r} is made by the broker itself, when it needs it")

        def place(placing: Placing) -> list[Replicas]:
            return placing.of_topic(new)

        return await self._make(name, place, new.config, validate_only=validate_only)

    async def ensure_internal(
        self, topic: InternalTopic, *, partitions: int, config: Mapping[str, str]
    ) -> None:
        """Made by the broker alone: with other settings they would lose state."""

        def place(placing: Placing) -> list[Replicas]:
            return placing.of_internal_topic(partitions)

        with contextlib.suppress(TopicExists):
            await self._make(TopicName(topic), place, config)

    async def ensure_companion(
        self, topic: InternalTopic, owner: TopicView, *, config: Mapping[str, str]
    ) -> None:
        """A topic that belongs to another: as many partitions, on the same brokers."""

        def place(_: Placing) -> list[Replicas]:
            return [tuple(each.replicas) for each in self.find_by_id(owner.id).partitions]

        known = self._follower.image.topics.get(topic)
        if known is None:
            with contextlib.suppress(TopicExists):
                await self._make(TopicName(topic), place, config)
        for _ in range(TRANSACTION_TRIES):
            known, replicas = self.find(topic), place(self._placing())
            if len(known.partitions) >= len(replicas):
                return
            # Each partition of a topic that was split asks for it by itself.
            with contextlib.suppress(Conflict):
                await self._grow(known, replicas[len(known.partitions) :])
                return
            await asyncio.sleep(AGAIN_S)
        raise Conflict(f"topic {topic!r} is changed too often at the same time; try again")

    async def forget_internal(self, topic: InternalTopic) -> None:
        """Of one that has nothing in it any more."""
        deletions: list[Op] = [
            Delete(keys.topic_key(topic)),
            DeletePrefix(keys.partitions_prefix(topic)),
        ]
        done = await self._store.transact([], deletions)
        await self._follower.applied(done.revision)

    async def _make(
        self,
        name: TopicName,
        place: Place,
        config: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> TopicView:
        topic_config(config)
        for _ in range(TRANSACTION_TRIES):
            image = self._follower.image
            if name in image.topics:
                # Who is told so may use it: not before this broker hosts it.
                await self._follower.applied(image.revision)
                raise TopicExists(f"topic {name!r} exists already")
            says, still = await self._says(name, config)
            placing = self._placing()
            assignments = await _placed(placing, place)
            if not is_internal(name):
                _check_collision(name, image.topics)
                placing.check_room(assignments)
            new = placing.begin(assignments, self._commits(says))
            level = first_use_in(image, Feature.TOPIC_SETTINGS, config)
            if validate_only:
                return _proposed(name, new, config)
            value = keys.TopicValue(
                id=self._new_id(), partitions=len(assignments), config=dict(config)
            )
            is_missing = Compare.missing(keys.topic_key(name))
            done = await self._store_topic(name, 0, new, value, is_missing, still, level)
            if done.succeeded:
                await self._follower.applied(done.revision)
                return self.find(name)
            for found in done.responses[0]:
                await self._follower.applied(found.mod_revision)
            # Somebody was faster; or a broker restarted: partitions begin under its new epoch; or
            # the topic changed that it is to belong to.
            await asyncio.sleep(AGAIN_S)
        raise Conflict(f"brokers, or topic {name!r}, change too often at the same time; try again")

    async def ensure(self, topic: CreatableTopic) -> TopicView:
        """The topic, made with the broker's defaults if it is not there and that is allowed."""
        known = self._follower.image.topics.get(topic)
        if known is not None:
            return known
        if is_internal(topic):
            raise UnknownTopic(
                f"there is no topic {topic!r} yet; the broker makes it on first need"
            )
        if not self._broker_configs.running.auto_create_topics_enable:
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
        # What belongs to it goes with it, also if it is being made just now.
        gone = [str(name), *(companion_of(kind, topic.id) for kind in KINDS)]
        deletions: list[Op] = []
        for each in gone:
            deletions += [Delete(keys.topic_key(each)), DeletePrefix(keys.partitions_prefix(each))]
        done = await self._store.transact([Compare.exists(key)], deletions)
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
        is_ordered: bool | None = None,
        validate_only: bool = False,
    ) -> None:
        """`is_ordered`: keep the order of keys, which takes only multiples; None: as the topic's
        settings say."""
        topic = self.find(name)
        current = len(topic.partitions)
        if total <= current:
            raise InvalidPartitions(
                f"topic {name!r} has {current} partitions; {total} asked for is not more"
            )
        placing = self._placing()
        placing.check_partition_count(total)
        if topic.is_internal:
            raise PolicyViolation(f"the partition count of {name!r} is fixed")
        replicas = await _placed(
            placing, lambda placing: placing.of_growth(topic, total - current, assignments)
        )
        placing.check_room(replicas)
        if is_ordered is None:
            is_ordered = self.effective_config(topic).partition_growth == ORDERED
        drain_ms = self._config.scale_drain_ms
        splits = next_splits(topic, total, is_ordered=is_ordered, drain_ms=drain_ms)
        level = first_use(self._follower.image, Feature.SPLITS) if splits else []
        if validate_only:
            return
        await self._grow(topic, replicas, splits, level)

    async def _grow(
        self,
        topic: TopicView,
        replicas: Sequence[Replicas],
        splits: tuple[Split, ...] = (),
        level: Sequence[keys.Entry] = (),
    ) -> None:
        name, current = topic.name, len(topic.partitions)
        found = (await self._store.get(keys.topic_key(name))).one
        value = None if found is None else _topic_value(found)
        if found is None or value is None or value.id != topic.id:
            raise UnknownTopic(f"there is no topic {name!r}")
        total = current + len(replicas)
        grown = msgspec.structs.replace(value, partitions=total, splits=splits)
        says, still = await self._says(name, value.config)
        new = self._placing().begin(replicas, self._commits(says))
        is_as_read = Compare.unchanged(found.key, found.mod_revision)
        if (value.partitions, value.splits) == (current, topic.splits):
            done = await self._store_topic(name, current, new, grown, is_as_read, still, level)
            if done.succeeded:
                await self._follower.applied(done.revision)
                return
        raise Conflict(f"topic {name!r} was changed at the same time; try again")

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
        """Topics that say the same share what follows from it: there are thousands of partitions,
        and most topics say nothing."""
        overrides = self._broker_configs.overrides
        if overrides != self._effective_under or len(self._effective) >= EFFECTIVE_MAX:
            self._effective, self._effective_under = {}, overrides
        says = settings_said(topic, self._follower.image)
        own = tuple(sorted(says.items()))
        known = self._effective.get(own)
        if known is None:
            known = effective_topic_config(says, overrides, self._config)
            self._effective[own] = known
        return known

    def commits_of(self, topic: TopicView) -> CommitSettings:
        return self._commits(settings_said(topic, self._follower.image))

    def describe_config(self, name: InspectableTopic) -> list[ConfigEntry]:
        topic = self.find(check_topic_name(name))
        says = settings_said(topic, self._follower.image)
        entries = topic_entries(says, self._broker_configs.overrides, self._config)
        return [*entries, *layout_entries(topic.splits)]

    # --- inside ---------------------------------------------------------------------------

    async def _set_config(
        self, name: str, change: ChangeConfig, *, validate_only: bool = False
    ) -> None:
        current = self.find(name).config
        checked = change(current)
        topic_config(checked)
        check_change(name, current, checked)
        level = first_use_in(self._follower.image, Feature.TOPIC_SETTINGS, checked)
        if validate_only:
            return
        for _ in range(TRANSACTION_TRIES):
            found = (await self._store.get(keys.topic_key(name))).one
            if found is None:
                raise UnknownTopic(f"there is no topic {name!r}")
            value = _topic_value(found)
            texts = dict(change(value.config))
            topic_config(texts)
            configured = msgspec.structs.replace(value, config=texts)
            await self._follower.applied(found.mod_revision)
            says, still = await self._says(name, texts)
            changed = self._following(name, self._commits(says))
            for kind in KINDS:
                more, unchanged = await self._companion_following(kind, value.id, texts)
                changed += more
                still.append(unchanged)
            done = await store_settings(
                self._store, name, configured, found.mod_revision, changed, also=still, level=level
            )
            if done.succeeded:
                await self._follower.applied(done.revision)
                return
            await asyncio.sleep(AGAIN_S)
        raise Conflict(f"topic {name!r} is changed too often at the same time; try again")

    async def _says(
        self, name: str, own: Mapping[str, str]
    ) -> tuple[Mapping[str, str], list[Compare]]:
        """What holds of a topic that is to be given `own`, as the store has it now; and what must
        still be so when it is given them."""
        companion = kind_and_owner(name)
        if companion is None:
            return own, []
        owner = self.find_by_id(companion[1])
        found = (await self._store.get(keys.topic_key(owner.name))).one
        value = None if found is None else _topic_value(found)
        if found is None or value is None or value.id != owner.id:
            # It must not be made: nobody would delete it.
            raise UnknownTopicId(f"there is no topic with id {owner.id}")
        unchanged = Compare.unchanged(found.key, found.mod_revision)
        return companion_settings(own, value.config), [unchanged]

    def _following(self, name: str, commits: CommitSettings) -> list[ChangedPartition]:
        """Partitions of the topic whose state must follow its settings, as they are to be."""
        return [
            ChangedPartition(name, replace(partition, state=state))
            for partition in self.find(name).partitions
            if (state := following(partition.state, commits)) != partition.state
        ]

    async def _companion_following(
        self, kind: str, owner: uuid.UUID, texts: Mapping[str, str]
    ) -> tuple[list[ChangedPartition], Compare]:
        """The same of a companion of a topic that is to have the settings `texts`; and that it is
        as it was found, or is not there."""
        name = companion_of(kind, owner)
        key = keys.topic_key(name)
        found = (await self._store.get(key)).one
        if found is None:
            return [], Compare.missing(key)
        await self._follower.applied(found.mod_revision)
        says = companion_settings(_topic_value(found).config, texts)
        changed = self._following(name, self._commits(says))
        return changed, Compare.unchanged(key, found.mod_revision)

    def _commits(self, own: Mapping[str, str]) -> CommitSettings:
        effective = effective_topic_config(own, self._broker_configs.overrides, self._config)
        is_own = "fsync.policy" in own
        return CommitSettings(
            effective.min_insync_replicas, is_own and effective.fsync_policy == "always"
        )

    def _placing(self) -> Placing:
        return Placing(self._follower.image, self._broker_configs.running)

    async def _store_topic(
        self,
        name: str,
        first: int,
        new: NewPartitions,
        value: keys.TopicValue,
        topic_is: Compare,
        also: Sequence[Compare] = (),
        level: Sequence[keys.Entry] = (),
    ) -> TxnResult:
        return await store_topic(
            self._store,
            name,
            keys.new_partition_entries(name, first, new.states),
            value,
            topic_is=topic_is,
            also=[
                *also,
                *(
                    Compare.unchanged(keys.broker_key(node), epoch)
                    for node, epoch in new.registered.items()
                ),
            ],
            level=level,
        )


async def _placed(placing: Placing, place: Place) -> list[Replicas]:
    """Thousands of partitions take a second to spread over brokers, beside the event loop."""
    if placing.is_alone:
        return place(placing)
    return await asyncio.to_thread(place, placing)


def _topic_value(found: KeyValue) -> keys.TopicValue:
    return keys.decode_value(found.key, found.value, keys.TopicValue)


def _check_collision(name: str, others: Iterable[str]) -> None:
    """Metrics write '.' and '_' alike, so Kafka takes only one of such names; so do we."""
    if "." not in name and "_" not in name:
        return
    plain = name.replace(".", "_")
    for other in others:
        if other.replace(".", "_") == plain:
            raise InvalidTopicName(f"topic name {name!r} collides with {other!r} ('.' and '_')")


def _proposed(name: TopicName, new: NewPartitions, config: Mapping[str, str]) -> TopicView:
    partitions = tuple(
        PartitionView(PartitionIndex(index), state, 0) for index, state in enumerate(new.states)
    )
    return TopicView(name, uuid.UUID(int=0), partitions, dict(config))
