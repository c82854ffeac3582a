"""Topics and their settings: made, listed, described, changed, deleted."""

from collections import Counter
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from goqueue.broker.node import Node
from goqueue.broker.quotas.limited_topics import LimitedTopics
from goqueue.model.caller import Caller
from goqueue.model.configs import ConfigChange, ConfigEntry
from goqueue.model.rights import CreatableTopic, DescribableTopic, Resource, Verb
from goqueue.model.topics import NewTopic, TopicDescription, TopicSizes, TopicView
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited
from goqueue.service.topic_making import TopicMaking

# Of a new topic.
_NEW: Final = ("new.partitions", "new.replication_factor", "new.config")


class TopicService:
    def __init__(self, node: Node, access: Access) -> None:
        self._topics = node.topics
        self._log = node.log_anywhere
        self._news = node.news
        self._node = node
        self._limited = LimitedTopics(node, access.administers_cluster)
        self._access = access
        self._making = TopicMaking(node, access)

    # --- finding --------------------------------------------------------------------------

    def name_of(self, caller: Caller, topic_id: UUID, verb: Verb) -> str:
        """Whose id it is, for a request that names topics by id and is about to do `verb`."""
        name = self._topics.find_by_id(topic_id).name
        self._access.check_topic_of_id(caller, topic_id, name, verb)
        return name

    def view(self, caller: Caller, name: str) -> TopicView:
        return self._topics.describe(self._access.describable_topic(caller, name))

    def views(self, caller: Caller) -> list[TopicView]:
        """All topics that the caller may know of."""
        return [
            topic
            for topic in self._node.image.topics.values()
            if self._access.sees_topic(caller, topic.name)
        ]

    async def ensure(self, caller: Caller, name: str) -> TopicView:
        """The topic, made with the broker's defaults if it is not there and that is allowed."""
        self._access.describable_topic(caller, name)
        known = self._node.image.topics.get(name)
        if known is not None:
            return known
        return await self._making.ensure(caller, name)

    async def describe(self, caller: Caller, name: str) -> TopicDescription:
        """The topic with the ends and sizes of its partitions, and with its settings."""
        right = self._access.describable_topic(caller, name)
        return await self._described(caller, right, self._topics.describe(right))

    async def sizes(self, caller: Caller) -> TopicSizes:
        """All topics that the caller may know of, by name, with their bytes."""
        told = await self._log.sizes()
        by_topic: Counter[str] = Counter()
        for sizes in told.answers.values():
            by_topic.update(sizes)
        topics = sorted(self.views(caller), key=lambda topic: topic.name)
        return TopicSizes([(topic, by_topic[topic.name]) for topic in topics], told.unanswered)

    async def _described(
        self, caller: Caller, right: DescribableTopic | CreatableTopic, topic: TopicView
    ) -> TopicDescription:
        config = self._settings(caller, topic.name)
        stored = await self._log.stored(right, topic)
        return TopicDescription(topic=topic, partitions=stored, config=config)

    def _settings(self, caller: Caller, name: str) -> Sequence[ConfigEntry] | None:
        if not self._may_inspect(caller, name):
            return None
        return self._topics.describe_config(self._access.inspectable_topic(caller, name))

    def _may_inspect(self, caller: Caller, name: str) -> bool:
        return self._access.allows(caller, Resource.TOPIC, name, Verb.DESCRIBE_CONFIGS)

    # --- changing -------------------------------------------------------------------------

    @audited("topic.create", Resource.TOPIC, about="new.name", detail=_NEW)
    async def create(self, caller: Caller, new: NewTopic) -> TopicDescription:
        right = self._access.creatable_topic(caller, new.name)
        topic = await self._limited.create(caller, right, new)
        await self._news.spread()
        return await self._described(caller, right, topic)

    @audited("topic.create", Resource.TOPIC, about="new.name", detail=_NEW)
    async def make(
        self,
        caller: Caller,
        new: NewTopic,
        *,
        validate_only: bool = False,
        is_strict: bool = True,
    ) -> tuple[TopicView, Sequence[ConfigEntry] | None]:
        """As `create`, told without asking leaders for it: the topic, and its settings for those
        who may see them. With `validate_only` it is what would be made, without its settings.
        Not `is_strict`: also for a caller beyond its quota."""
        right = self._access.creatable_topic(caller, new.name)
        may_inspect = self._may_inspect(caller, new.name)
        topic = await self._limited.create(
            caller, right, new, validate_only=validate_only, is_strict=is_strict
        )
        if validate_only:
            return topic, () if may_inspect else None
        await self._news.spread()
        return topic, self._settings(caller, topic.name)

    @audited("topic.delete", Resource.TOPIC, about="name")
    async def delete(self, caller: Caller, name: str, *, is_strict: bool = True) -> TopicView:
        """Returns what it was."""
        right = self._access.deletable_topic(caller, name)
        deleted = await self._limited.delete(caller, right, is_strict=is_strict)
        await self._news.spread()
        return deleted

    @audited("topic.partitions", Resource.TOPIC, about="name", detail=("total",))
    async def create_partitions(
        self,
        caller: Caller,
        name: str,
        total: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
        is_strict: bool = True,
    ) -> None:
        right = self._access.alterable_topic(caller, name)
        await self._limited.create_partitions(
            caller,
            right,
            total,
            assignments=assignments,
            validate_only=validate_only,
            is_strict=is_strict,
        )
        await self._news.spread()

    @audited("topic.split", Resource.TOPIC, about="name", detail=("total",))
    async def split(self, caller: Caller, name: str, total: int) -> TopicView:
        """Add partitions, with the order of keys kept; returns the topic as it is then."""
        right = self._access.alterable_topic(caller, name)
        view = self._access.describable_topic(caller, name)
        await self._limited.create_partitions(caller, right, total, is_ordered=True)
        await self._news.spread()
        return self._topics.describe(view)

    @audited("topic.alter", Resource.TOPIC, about="name", detail=("partitions", "changes"))
    async def alter(
        self,
        caller: Caller,
        name: str,
        *,
        partitions: int | None = None,
        changes: Sequence[ConfigChange] = (),
    ) -> TopicDescription:
        """Change settings, add partitions, or both. All of it is checked before any is done."""
        view = self._access.describable_topic(caller, name)
        grown = None if partitions is None else self._access.alterable_topic(caller, name)
        changed = self._access.configurable_topic(caller, name) if changes else None
        if changed is not None:
            await self._topics.alter_config(changed, changes, validate_only=True)
        current = len(self._topics.describe(view).partitions)
        if grown is not None and partitions is not None and partitions != current:
            await self._limited.create_partitions(caller, grown, partitions)
        if changed is not None:
            await self._topics.alter_config(changed, changes)
        await self._news.spread()
        return await self._described(caller, view, self._topics.describe(view))
