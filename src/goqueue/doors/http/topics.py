"""/topics: create, list, describe, alter, delete."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.doors.http.setting_values import (
    SettingValue,
    setting_changes,
    setting_text,
    settings_schema,
)
from goqueue.doors.http.unanswered import UnansweredBrokers, show_unanswered
from goqueue.doors.http.whole_numbers import PartitionCount, ReplicationFactor, whole
from goqueue.model import topics
from goqueue.model.caller import Caller
from goqueue.model.names import TOPIC_NAME_MAX_LENGTH
from goqueue.model.rights import Resource, Verb
from goqueue.model.topic_config import TOPIC_SETTINGS
from goqueue.model.topics import NewTopic, PartitionView, StoredPartition, TopicView
from goqueue.pace import in_slices
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need, Refused

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
            extra_json_schema=settings_schema(TOPIC_SETTINGS.values()),
        ),
    ] = {}


class AlterTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    partitions: Annotated[
        PartitionCount | None,
        Meta(
            description="The new total; it can only grow. With `partition.growth=ordered`, a "
            "multiple of what there is."
        ),
    ] = None
    config: Annotated[
        dict[str, SettingValue | None],
        Meta(
            description="Settings to change; null goes back to the default.",
            extra_json_schema=settings_schema(TOPIC_SETTINGS.values(), "null"),
        ),
    ] = {}


class TopicSummary(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    id: str
    internal: bool
    partition_count: int
    replication_factor: int
    size_bytes: int


class TopicList(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sizes are without the partitions of brokers that are `unanswered`."""

    topics: list[TopicSummary]
    unanswered: UnansweredBrokers = []


class PartitionDescription(msgspec.Struct, frozen=True, rename="camel"):
    """Offsets and size are those of the leader; null where nobody can tell them."""

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
    size_bytes: Annotated[int, Meta(description="Of all partitions, each counted once.")]
    partitions: list[PartitionDescription]
    config: Annotated[dict[str, str], Meta(description="The topic's own settings.")]
    effective_config: Annotated[
        list[EffectiveSetting], Meta(description="Every setting, with defaults filled in.")
    ]


# Settings are left out of descriptions for those who may not see them.
_SETTINGS_NEED: Final = Need(
    Resource.TOPIC, Verb.DESCRIBE_CONFIGS, names="name", refused=Refused.LEFT_OUT
)


@post(
    "/topics",
    tags=["Topics"],
    responses=errors(400, 403, 409, 413, 415, 422),
    opt={
        "needs": (Need(Resource.TOPIC, Verb.CREATE, names="name", or_cluster=True), _SETTINGS_NEED)
    },
)
async def create_topic(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    data: JSONBody[CreateTopic],
) -> Response[TopicDescription]:
    """Create a topic."""
    new = NewTopic(
        name=data.name,
        partitions=whole(data.partitions),
        replication_factor=whole(data.replication_factor),
        config={name: setting_text(value) for name, value in data.config.items()},
    )
    created = await service.topics.create(caller, new)
    headers = {"location": f"/topics/{created.topic.name}"}
    return Response(_shown(created), headers=headers)


@get(
    "/topics",
    tags=["Topics"],
    responses=errors(400),
    opt={"needs": (Need(Resource.TOPIC, Verb.DESCRIBE, refused=Refused.LEFT_OUT),)},
)
async def list_topics(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller]
) -> TopicList:
    """List all topics."""
    found = await service.topics.sizes(caller)
    return TopicList(
        [_summary(topic, size_bytes) async for topic, size_bytes in in_slices(found.topics)],
        show_unanswered(found.unanswered),
    )


@get(
    "/topics/{name:str}",
    tags=["Topics"],
    responses=errors(400, 403, 404),
    opt={"needs": (Need(Resource.TOPIC, Verb.DESCRIBE, names="name"), _SETTINGS_NEED)},
)
async def describe_topic(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller], name: TopicInPath
) -> TopicDescription:
    """Describe a topic: partitions with offsets and sizes, and settings."""
    return _shown(await service.topics.describe(caller, name))


@patch(
    "/topics/{name:str}",
    tags=["Topics"],
    responses=errors(400, 403, 404, 409, 413, 415, 422),
    # The second is asked for where the count changes, the third where settings do.
    opt={
        "needs": (
            Need(Resource.TOPIC, Verb.DESCRIBE, names="name"),
            Need(Resource.TOPIC, Verb.ALTER, names="name"),
            Need(Resource.TOPIC, Verb.ALTER_CONFIGS, names="name"),
            _SETTINGS_NEED,
        )
    },
)
async def alter_topic(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    name: TopicInPath,
    data: JSONBody[AlterTopic],
) -> TopicDescription:
    """Change settings, add partitions, or both. All of it is checked before any is done."""
    changes = setting_changes(data.config)
    altered = await service.topics.alter(
        caller, name, partitions=whole(data.partitions), changes=changes
    )
    return _shown(altered)


@delete(
    "/topics/{name:str}",
    tags=["Topics"],
    responses=errors(400, 403, 404, 409),
    opt={"needs": (Need(Resource.TOPIC, Verb.DELETE, names="name"),)},
)
async def delete_topic(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller], name: TopicInPath
) -> None:
    """Delete a topic with everything in it."""
    await service.topics.delete(caller, name)


ROUTES: Final[Sequence[HTTPRouteHandler]] = (
    create_topic,
    list_topics,
    describe_topic,
    alter_topic,
    delete_topic,
)


def _summary(topic: TopicView, size_bytes: int) -> TopicSummary:
    return TopicSummary(
        name=topic.name,
        id=str(topic.id),
        internal=topic.is_internal,
        partition_count=len(topic.partitions),
        replication_factor=_replication_factor(topic),
        size_bytes=size_bytes,
    )


def _shown(described: topics.TopicDescription) -> TopicDescription:
    topic = described.topic
    entries = described.config
    return TopicDescription(
        name=topic.name,
        id=str(topic.id),
        internal=topic.is_internal,
        partition_count=len(topic.partitions),
        replication_factor=_replication_factor(topic),
        size_bytes=described.size_bytes,
        partitions=[
            _partition(view, stored)
            for view, stored in zip(topic.partitions, described.partitions, strict=True)
        ],
        config={} if entries is None else dict(topic.config),
        effective_config=[
            EffectiveSetting(entry.name, entry.value, entry.source.name.lower())
            for entry in entries or ()
        ],
    )


def _replication_factor(topic: TopicView) -> int:
    return len(topic.partitions[0].state.wanted) if topic.partitions else 0


def _partition(view: PartitionView, stored: StoredPartition) -> PartitionDescription:
    return PartitionDescription(
        partition=view.index,
        leader=view.leader,
        leader_epoch=view.leader_epoch,
        replicas=list(view.replicas),
        isr=list(view.isr),
        log_start_offset=stored.log_start_offset,
        high_watermark=stored.high_watermark,
        size_bytes=stored.size_bytes,
        offline_reason=stored.offline_reason,
    )
