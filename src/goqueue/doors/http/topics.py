"""/topics: create, list, describe, alter, delete."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from goqueue.broker.node import Node
from goqueue.doors.http.openapi import errors
from goqueue.doors.http.whole_numbers import PartitionCount, ReplicationFactor, whole
from goqueue.model.configs import ConfigChange, ConfigOp
from goqueue.model.errors import GoQueueError
from goqueue.model.names import TOPIC_NAME_MAX_LENGTH
from goqueue.model.topic_config import TOPIC_SETTINGS
from goqueue.model.topics import NewTopic, PartitionView, TopicView

TOPIC_NAME_PATTERN: Final = r"^(?!\.{1,2}$)[a-zA-Z0-9._-]+$"
_NAME_DOC: Final = "1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'; not '.' or '..'."

NewName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=TOPIC_NAME_MAX_LENGTH,
        pattern=TOPIC_NAME_PATTERN,
        description=_NAME_DOC,
    ),
]
TopicInPath = Annotated[
    str,
    PathParameter(
        min_length=1,
        max_length=TOPIC_NAME_MAX_LENGTH,
        pattern=TOPIC_NAME_PATTERN,
        description="The topic's name.",
    ),
]
# Settings are text, as Kafka's tools have them; JSON's own numbers and booleans are taken too.
SettingValue = str | int | float | bool


def _settings_schema(*types: str) -> dict[str, Any]:
    return {
        "propertyNames": {"enum": list(TOPIC_SETTINGS)},
        "properties": {
            name: {
                "type": ["string", "number", "boolean", *types],
                "description": f"{setting.doc} Default: {setting.format(setting.default)}.",
            }
            for name, setting in TOPIC_SETTINGS.items()
        },
    }


class CreateTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    name: NewName
    partitions: Annotated[
        PartitionCount | None,
        Meta(description="Without it: the broker's `num.partitions`."),
    ] = None
    replication_factor: ReplicationFactor | None = None
    config: Annotated[
        dict[str, SettingValue],
        Meta(
            description="The topic's own settings, by name.",
            extra_json_schema=_settings_schema(),
        ),
    ] = {}


class AlterTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    partitions: Annotated[
        PartitionCount | None,
        Meta(description="The new total; it can only grow."),
    ] = None
    config: Annotated[
        dict[str, SettingValue | None],
        Meta(
            description="Settings to change; null goes back to the default.",
            extra_json_schema=_settings_schema("null"),
        ),
    ] = {}


class TopicSummary(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    id: str
    internal: bool
    partition_count: int
    replication_factor: int
    size_bytes: int


class TopicList(msgspec.Struct, frozen=True):
    topics: list[TopicSummary]


class PartitionDescription(msgspec.Struct, frozen=True, rename="camel"):
    """Offsets and size are null where this broker has no log of the partition."""

    partition: int
    leader: Annotated[int, Meta(description="Node id; -1 while there is none.")]
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    log_start_offset: int | None
    high_watermark: int | None
    size_bytes: int | None
    offline_reason: str | None


class EffectiveSetting(msgspec.Struct, frozen=True):
    name: str
    value: str
    source: Annotated[
        str, Meta(description="Where it comes from: topic, dynamic_broker, static_broker, …")
    ]


class TopicDescription(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    id: str
    internal: bool
    partition_count: int
    replication_factor: int
    size_bytes: Annotated[int, Meta(description="Of all partitions on this broker.")]
    partitions: list[PartitionDescription]
    config: Annotated[dict[str, str], Meta(description="The topic's own settings.")]
    effective_config: Annotated[
        list[EffectiveSetting], Meta(description="Every setting, with defaults filled in.")
    ]


@post("/topics", tags=["Topics"], responses=errors(400, 403, 409, 413, 415, 422))
async def create_topic(
    broker: NamedDependency[Node], data: JSONBody[CreateTopic]
) -> Response[TopicDescription]:
    """Create a topic."""
    new = NewTopic(
        name=data.name,
        partitions=whole(data.partitions),
        replication_factor=whole(data.replication_factor),
        config={name: _text(value) for name, value in data.config.items()},
    )
    topic = await broker.create_topic(new)
    return Response(_describe(broker, topic), headers={"location": f"/topics/{topic.name}"})


@get("/topics", tags=["Topics"], responses=errors(400))
async def list_topics(broker: NamedDependency[Node]) -> TopicList:
    """List all topics."""
    topics = sorted(broker.image.topics.values(), key=lambda topic: topic.name)
    return TopicList([_summarise(broker, topic) for topic in topics])


@get("/topics/{name:str}", tags=["Topics"], responses=errors(400, 404))
async def describe_topic(broker: NamedDependency[Node], name: TopicInPath) -> TopicDescription:
    """Describe a topic: partitions with offsets and sizes, and settings."""
    return _describe(broker, broker.topic(name))


@patch("/topics/{name:str}", tags=["Topics"], responses=errors(400, 403, 404, 409, 413, 415, 422))
async def alter_topic(
    broker: NamedDependency[Node], name: TopicInPath, data: JSONBody[AlterTopic]
) -> TopicDescription:
    """Change settings, add partitions, or both. All of it is checked before any is done."""
    changes = [_change(setting, value) for setting, value in data.config.items()]
    total = whole(data.partitions)
    if changes:
        await broker.topics.alter_config(name, changes, validate_only=True)
    if total is not None and total != len(broker.topic(name).partitions):
        await broker.topics.create_partitions(name, total)
    if changes:
        await broker.topics.alter_config(name, changes)
    return _describe(broker, broker.topic(name))


@delete("/topics/{name:str}", tags=["Topics"], responses=errors(400, 403, 404, 409))
async def delete_topic(broker: NamedDependency[Node], name: TopicInPath) -> None:
    """Delete a topic with everything in it."""
    await broker.delete_topic(name)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (
    create_topic,
    list_topics,
    describe_topic,
    alter_topic,
    delete_topic,
)


def _change(name: str, value: SettingValue | None) -> ConfigChange:
    if value is None:
        return ConfigChange(name=name, op=ConfigOp.DELETE)
    return ConfigChange(name=name, op=ConfigOp.SET, value=_text(value))


def _text(value: SettingValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _summarise(broker: Node, topic: TopicView) -> TopicSummary:
    sizes = (_partition(broker, topic, view).size_bytes or 0 for view in topic.partitions)
    return TopicSummary(
        name=topic.name,
        id=str(topic.id),
        internal=topic.is_internal,
        partition_count=len(topic.partitions),
        replication_factor=_replication_factor(topic),
        size_bytes=sum(sizes),
    )


def _describe(broker: Node, topic: TopicView) -> TopicDescription:
    partitions = [_partition(broker, topic, view) for view in topic.partitions]
    config: Mapping[str, str] = topic.config
    return TopicDescription(
        name=topic.name,
        id=str(topic.id),
        internal=topic.is_internal,
        partition_count=len(partitions),
        replication_factor=_replication_factor(topic),
        size_bytes=sum(partition.size_bytes or 0 for partition in partitions),
        partitions=partitions,
        config=dict(config),
        effective_config=[
            EffectiveSetting(entry.name, entry.value, entry.source.name.lower())
            for entry in broker.topics.describe_config(topic.name)
        ],
    )


def _replication_factor(topic: TopicView) -> int:
    return len(topic.partitions[0].replicas) if topic.partitions else 0


def _partition(broker: Node, topic: TopicView, view: PartitionView) -> PartitionDescription:
    start = end = size = reason = None
    try:
        partition = broker.partition(topic.name, view.index)
    except GoQueueError as error:
        reason = error.message
    else:
        start, end = partition.log_start_offset, partition.high_watermark
        size, reason = partition.log.size_bytes, partition.offline_reason
    return PartitionDescription(
        partition=view.index,
        leader=view.leader,
        leader_epoch=view.leader_epoch,
        replicas=list(view.replicas),
        isr=list(view.isr),
        log_start_offset=start,
        high_watermark=end,
        size_bytes=size,
        offline_reason=reason,
    )
