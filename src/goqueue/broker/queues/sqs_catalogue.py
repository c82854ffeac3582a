"""The queues of SQS on this broker. Every topic is one; what SQS knows of it besides is an entry.

Creating, configuring, purging and deleting queues; the queue engine is told what follows from their
attributes. An entry is changed by compare-and-set: several brokers may have the same idea at once.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, Protocol
from uuid import UUID

import msgspec

from goqueue.broker.own_grants import OwnWork, own_group, own_read
from goqueue.broker.queues.queues import Queues
from goqueue.broker.queues.sqs_entries import SqsEntries
from goqueue.broker.topics.topics import TopicAdmin
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.configs import ConfigChange
from goqueue.model.errors import (
    TopicExists,
    UnknownTopic,
)
from goqueue.model.queues.attributes import (
    DEFAULTS,
    FIFO_SUFFIX,
    MESSAGE_SIZE_MAX_BYTES,
    REMOVED_WHEN,
    check_attributes,
    check_name,
    invalid_parameter,
    parse_redrive_allow_policy,
    parse_redrive_policy,
    plain_attributes,
)
from goqueue.model.queues.dead_letters import dead_letter_topic
from goqueue.model.queues.refusals import PurgedJustNow, QueueDiffers, UnknownAttribute
from goqueue.model.queues.sqs_queue import (
    FROM_TOPIC,
    IN_FLIGHT_MAX,
    SQS_GROUP,
    PurgeMark,
    QueueCounts,
    QueueEntry,
    SqsQueue,
    topic_settings,
)
from goqueue.model.queues.tags import check_tags
from goqueue.model.rights import (
    ConfigurableTopic,
    CreatableTopic,
    DeletableTopic,
    DescribableTopic,
    ReadableTopic,
    WritableTopic,
)
from goqueue.model.security.tenants import local_name, tenant_of_topic
from goqueue.model.topic_config import TopicConfig
from goqueue.model.topics import NewTopic, TopicView
from goqueue.state.metadata_image import MetadataImage

_ENTRY_PREFIX: Final = "queues/"
# Apart from the entry: a topic that was purged is no queue that somebody made.
_PURGE_PREFIX: Final = "purges/"
_GROUP: Final = own_group(SQS_GROUP, OwnWork.SQS_QUEUE)
# A batch of the largest size with ten times the headers, attributes and framing around it.
BATCH_OVERHEAD_BYTES: Final = 65_536
# Queues whose attributes are at hand; some tens of megabytes.
CACHED_QUEUES_MAX: Final = 10_000
# API reference, PurgeQueue: one every 60 seconds.
PURGE_PAUSE_MS: Final = 60_000
# With one purge: far below what a transaction of the metadata store takes.
MARKS_REMOVED: Final = 50

# Whoever may do any of these with a topic may know what queue it is.
KnownTopic = (
    DescribableTopic
    | ReadableTopic
    | WritableTopic
    | CreatableTopic
    | ConfigurableTopic
    | DeletableTopic
)


class CatalogueHost(Protocol):
    """The part of the broker that the catalogue stands on."""

    clock_ms: Callable[[], int]
    config: BrokerConfig
    topics: TopicAdmin

    @property
    def image(self) -> MetadataImage: ...
    def topic_config(self, topic: TopicView) -> TopicConfig: ...


class WaitingMessages(Protocol):
    """The messages of a queue that are not in its topic yet, because they are delayed."""

    async def pending_count(self, topic: DescribableTopic) -> int: ...
    async def cancel_all(self, topic: DeletableTopic) -> None: ...


class SqsCatalogue:
    def __init__(
        self, host: CatalogueHost, queues: Queues, delayed: WaitingMessages, entries: SqsEntries
    ) -> None:
        self._host = host
        self._queues = queues
        self._delayed = delayed
        self._entries = entries
        self._known: dict[str, SqsQueue] = {}
        # Those that the engine has with the settings that they have now.
        self._open: dict[str, tuple[SqsQueue, int]] = {}
        self._purging: set[UUID] = set()
        queues.registry.opened_by(SQS_GROUP, self._open_here)

    # --- finding --------------------------------------------------------------------------

    def names(self) -> list[str]:
        topics = self._host.image.topics.values()
        return sorted(topic.name for topic in topics if not topic.is_internal)

    def find(self, topic: KnownTopic) -> SqsQueue:
        return self._find(topic)

    def sources_of(self, target: str) -> list[str]:
        """The queues whose dead letters go to `target`."""
        found = []
        for name in self.names():
            redrive = self._find(name).redrive
            if redrive is not None and redrive.target == target:
                found.append(name)
        return found

    def origins_of(self, letters: str) -> frozenset[str]:
        """The topics whose settings send dead letters to this one, by SQS or by its name."""
        by_name = {name for name in self.names() if dead_letter_topic(name) == letters}
        return frozenset(by_name.union(self.sources_of(letters)))

    async def open(self, topic: ReadableTopic | DescribableTopic | DeletableTopic) -> SqsQueue:
        """The queue, known to the engine with its settings as they are now."""
        queue = self._find(topic)
        await self._tell_engine(queue)
        return queue

    async def _open_here(self, name: str, administers_cluster: bool) -> None:
        await self._tell_engine(self._find(name), administers_cluster=administers_cluster)

    async def counts(self, topic: DescribableTopic) -> QueueCounts:
        await self.open(topic)
        parts = await self._queues.describe(_GROUP, topic)
        return QueueCounts(
            visible=sum(part.ready + part.waiting for part in parts),
            in_flight=sum(part.in_flight for part in parts),
            delayed=await self._delayed.pending_count(topic),
        )

    def _find(self, name: str) -> SqsQueue:
        image = self._host.image
        topic = image.topics.get(name)
        if topic is None or topic.is_internal:
            self._known.pop(name, None)
            self._open.pop(name, None)
            raise UnknownTopic(f"there is no queue {name!r}")
        stored = self._entries.get(_ENTRY_PREFIX + name)
        known = self._known.get(name)
        if known is not None and known.made_from == (topic, stored, image.broker_configs):
            return known
        entry = _entry_of(topic, stored)
        config = self._host.topic_config(topic)
        queue = SqsQueue(topic, config, entry, (topic, stored, image.broker_configs))
        if len(self._known) >= CACHED_QUEUES_MAX:
            self._known.clear()
            self._open.clear()
        self._known[name] = queue
        return queue

    async def _tell_engine(self, queue: SqsQueue, *, administers_cluster: bool = False) -> None:
        registry = self._queues.registry
        known, leaderships = self._open.get(queue.name, (None, 0))
        if known is queue and leaderships == registry.leaderships:
            return
        now = (queue, registry.leaderships)
        settings = queue.settings(registry.settings_of(queue.topic))
        topic = own_read(queue.name, OwnWork.SQS_QUEUE)
        await registry.open(
            _GROUP,
            topic,
            start="earliest",
            settings=settings,
            administers_cluster=administers_cluster,
        )
        self._open[queue.name] = now

    # --- changing -------------------------------------------------------------------------

    def is_made_elsewhere(self, topic: CreatableTopic) -> bool:
        """Whether this is a topic that SQS was never told to make."""
        return topic in self._host.image.topics and self._find(topic).entry is None

    async def create(
        self,
        topic: CreatableTopic,
        attributes: Mapping[str, str],
        tags: Mapping[str, str],
        *,
        adopted: ConfigurableTopic | None,
        administers_cluster: bool,
    ) -> SqsQueue:
        """`adopted` is the topic itself where it was made elsewhere. `administers_cluster`: who
        asks does."""
        attributes = plain_attributes(attributes)
        check_name(local_name(tenant_of_topic(topic), topic), attributes)
        check_attributes(topic, attributes, is_new=True)
        check_tags(tags)
        self._check_redrive(topic, attributes)
        if topic not in self._host.image.topics:
            await self._create_topic(topic, attributes)
        queue = self._find(topic)
        if queue.entry is None:
            if adopted is not None:
                await self._set_topic(adopted, queue, attributes)
            await self._edit(
                queue, lambda new: _with(new, attributes, tags, new.created_s), is_new=True
            )
        queue = self._find(topic)
        _check_same(queue, attributes)
        await self._tell_engine(queue, administers_cluster=administers_cluster)
        return queue

    async def set_attributes(self, topic: ConfigurableTopic, attributes: Mapping[str, str]) -> None:
        queue = self._find(topic)
        attributes = plain_attributes(attributes)
        check_attributes(topic, attributes, is_new=False)
        if "FifoQueue" in attributes and not queue.is_fifo:
            raise UnknownAttribute("Unknown Attribute FifoQueue.")
        self._check_redrive(topic, attributes)
        await self._set_topic(topic, queue, attributes)
        await self._edit(queue, lambda entry: _with(entry, attributes, entry.tags, self._now_s()))
        await self._tell_engine(self._find(topic))

    async def change_policy(self, topic: ConfigurableTopic, change: Callable[[str], str]) -> None:
        """`change` makes the new text of the queue's policy from the old one."""

        def edit(entry: QueueEntry) -> QueueEntry:
            policy = change(entry.attributes.get("Policy", ""))
            return _with(entry, {"Policy": policy}, entry.tags, self._now_s())

        await self._edit(self._find(topic), edit)

    async def set_tags(self, topic: ConfigurableTopic, tags: Mapping[str, str | None]) -> None:
        """Add or replace tags; None removes one."""

        def edit(entry: QueueEntry) -> QueueEntry:
            merged: dict[str, str | None] = {**entry.tags, **tags}
            kept = {tag: value for tag, value in merged.items() if value is not None}
            check_tags(kept)
            return msgspec.structs.replace(entry, tags=kept)

        await self._edit(self._find(topic), edit)

    async def delete(self, topic: DeletableTopic) -> None:
        queue = self._find(topic)
        await self._entries.keep(
            {_ENTRY_PREFIX + queue.name: None, _PURGE_PREFIX + queue.name: None}
        )
        await self._host.topics.delete(topic)

    async def purge(self, topic: DeletableTopic, up_to: int = 0) -> None:
        """Nothing of what is there now is delivered any more; readers by offset keep it.

        Runs where the queue's first partition is led. `up_to`: the largest number that a message of
        a FIFO queue was given.
        """
        queue = self._find(topic)
        now_ms, earlier = self._host.clock_ms(), self._purge_mark(queue)
        is_recent = earlier is not None and 0 <= now_ms - earlier.at_ms < PURGE_PAUSE_MS
        if is_recent or queue.topic.id in self._purging:
            raise PurgedJustNow(
                f"Only one PurgeQueue operation on {queue.name} is allowed every 60 seconds."
            )
        mark = PurgeMark(
            topic_id=queue.topic.id, at_ms=now_ms, up_to=max(up_to, self.purged_up_to(queue))
        )
        self._purging.add(queue.topic.id)
        try:
            if up_to:
                # The numbers first: who numbers messages next goes on above them.
                await self._note_purge(queue, msgspec.structs.replace(mark, at_ms=0))
            await self._tell_engine(queue)
            await self._delayed.cancel_all(topic)
            await self._queues.purge(_GROUP, topic)
            await self._note_purge(queue, mark)
        finally:
            self._purging.discard(queue.topic.id)

    def purged_up_to(self, queue: SqsQueue) -> int:
        """The largest number that a message which was purged was given."""
        mark = self._purge_mark(queue)
        return 0 if mark is None else mark.up_to

    def _purge_mark(self, queue: SqsQueue) -> PurgeMark | None:
        stored = self._entries.get(_PURGE_PREFIX + queue.name)
        mark = None if stored is None else msgspec.json.decode(stored, type=PurgeMark)
        return mark if mark is not None and mark.topic_id == queue.topic.id else None

    async def _note_purge(self, queue: SqsQueue, mark: PurgeMark) -> None:
        """Together with the end of some marks whose topics were deleted through another door."""
        topics = self._host.image.topics
        gone = (name for name, _ in self._entries.under(_PURGE_PREFIX) if name not in topics)
        changes: dict[str, bytes | None] = {
            _PURGE_PREFIX + name: None for name in islice(gone, MARKS_REMOVED)
        }
        changes[_PURGE_PREFIX + queue.name] = msgspec.json.encode(mark)
        await self._entries.keep(changes)

    async def _create_topic(self, topic: CreatableTopic, attributes: Mapping[str, str]) -> None:
        partitions = self._host.config.num_partitions
        config = topic_settings(topic, {**DEFAULTS, **attributes})
        config["max.message.bytes"] = str(MESSAGE_SIZE_MAX_BYTES + BATCH_OVERHEAD_BYTES)
        config["queue.max.in.flight"] = str(-(-IN_FLIGHT_MAX // partitions))
        try:
            await self._host.topics.create(
                topic, NewTopic(name=topic, partitions=partitions, config=config)
            )
        except TopicExists:
            # Another door was quicker; it becomes the queue's topic all the same.
            return

    async def _set_topic(
        self,
        topic: ConfigurableTopic,
        queue: SqsQueue,
        attributes: Mapping[str, str],
    ) -> None:
        """Those attributes that are settings of the topic."""
        changed = topic_settings(queue.name, attributes)
        if any(queue.topic.config.get(name) != text for name, text in changed.items()):
            await self._host.topics.alter_config(
                topic, [ConfigChange(name=name, value=text) for name, text in changed.items()]
            )

    async def _edit(
        self,
        queue: SqsQueue,
        edit: Callable[[QueueEntry], QueueEntry],
        *,
        is_new: bool = False,
    ) -> None:
        """Change what is kept of a queue; with `is_new` only if nothing is."""
        now_s = self._now_s()

        def decide(stored: bytes | None) -> bytes:
            known = _entry_of(queue.topic, stored)
            if is_new and known is not None and stored is not None:
                return stored
            entry = known or QueueEntry(topic_id=queue.topic.id, created_s=now_s, modified_s=now_s)
            return msgspec.json.encode(edit(entry))

        await self._entries.change(_ENTRY_PREFIX + queue.name, decide)

    def _now_s(self) -> int:
        return self._host.clock_ms() // 1000

    def _check_redrive(self, name: str, attributes: Mapping[str, str]) -> None:
        """The dead-letter queue must be there, be of the same type, and allow it."""
        text = attributes.get("RedrivePolicy", "")
        policy = parse_redrive_policy(text)
        if policy is None:
            return
        problem = self._redrive_problem(name, policy.target)
        if problem is not None:
            raise invalid_parameter("RedrivePolicy", text, problem)

    def _redrive_problem(self, source: str, target: str) -> str | None:
        try:
            queue = self._find(target)
        except UnknownTopic:
            return "Dead letter target does not exist."
        if queue.is_fifo != source.endswith(FIFO_SUFFIX):
            return "Dead-letter queue must be same type of queue as the source."
        allowed = parse_redrive_allow_policy(queue.attributes.get("RedriveAllowPolicy", ""))
        if not allowed.allows(source):
            return "Queue is not allowed to use the dead-letter queue: see its RedriveAllowPolicy."
        return None


def _entry_of(topic: TopicView, stored: bytes | None) -> QueueEntry | None:
    entry = None if stored is None else msgspec.json.decode(stored, type=QueueEntry)
    # One of another id was left by a topic of this name that was deleted through another door.
    return entry if entry is not None and entry.topic_id == topic.id else None


def _with(
    entry: QueueEntry, attributes: Mapping[str, str], tags: Mapping[str, str], modified_s: int
) -> QueueEntry:
    own = dict(entry.attributes)
    for name, text in attributes.items():
        if REMOVED_WHEN.get(name) == text:
            own.pop(name, None)
        elif name not in FROM_TOPIC:
            own[name] = text
    return msgspec.structs.replace(entry, attributes=own, tags=dict(tags), modified_s=modified_s)


def _check_same(queue: SqsQueue, attributes: Mapping[str, str]) -> None:
    for name, text in attributes.items():
        if queue.attributes.get(name, REMOVED_WHEN.get(name)) != text:
            raise QueueDiffers(
                "A queue already exists with the same name and a different value for attribute "
                f"{name}"
            )
