"""/topics/{name}/split and /layout: more partitions with the order of keys kept, and how they came
to be."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from litestar import get, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody
from msgspec import Meta

from goqueue.doors.http.openapi import errors
from goqueue.doors.http.topics import TopicInPath
from goqueue.doors.http.whole_numbers import PartitionCount, whole
from goqueue.model.caller import Caller
from goqueue.model.layouts import Split, lineage
from goqueue.model.rights import Resource, Verb
from goqueue.model.topics import TopicView
from goqueue.service.broker_service import BrokerService
from goqueue.service.needs import Need


class SplitTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    partitions: Annotated[
        PartitionCount,
        Meta(description="The new total: a multiple of the partitions that there are."),
    ]


class LayoutEpoch(msgspec.Struct, frozen=True, rename="camel"):
    """A growth of the topic; the first layout of all, 0, is not listed."""

    epoch: int
    partitions: int
    parents: Annotated[int, Meta(description="How many partitions there were before.")]
    ordered: Annotated[bool, Meta(description="Whether the order of keys is kept.")]
    state: Annotated[
        Literal["draining", "settled"],
        Meta(description="While it drains, producers learn of it, and nobody reads what is new."),
    ]
    since: Annotated[int, Meta(description="When it was asked for, ms since 1970.")]
    drain_ms: int


class LayoutPartition(msgspec.Struct, frozen=True, rename="camel"):
    partition: int
    epoch: Annotated[int, Meta(description="In which layout it came.")]
    parent: Annotated[
        int | None, Meta(description="Read this one up to `parentEnd` before the partition.")
    ]
    parent_end: Annotated[
        int | None, Meta(description="null while the layout drains, or without a parent.")
    ]


class TopicLayout(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    epoch: int
    partition_count: int
    state: Literal["draining", "settled"]
    epochs: list[LayoutEpoch]
    partitions: list[LayoutPartition]


@post(
    "/topics/{name:str}/split",
    tags=["Topics"],
    status_code=200,
    responses=errors(400, 403, 404, 409, 413, 415, 422),
    opt={
        "needs": (
            Need(Resource.TOPIC, Verb.ALTER, names="name"),
            Need(Resource.TOPIC, Verb.DESCRIBE, names="name"),
        )
    },
)
async def split_topic(
    service: NamedDependency[BrokerService],
    caller: NamedDependency[Caller],
    name: TopicInPath,
    data: JSONBody[SplitTopic],
) -> TopicLayout:
    """Add partitions and keep the order of every key, whatever the topic's `partition.growth`."""
    return _shown(await service.topics.split(caller, name, whole(data.partitions)))


@get(
    "/topics/{name:str}/layout",
    tags=["Topics"],
    responses=errors(400, 403, 404),
    opt={"needs": (Need(Resource.TOPIC, Verb.DESCRIBE, names="name"),)},
)
async def topic_layout(
    service: NamedDependency[BrokerService], caller: NamedDependency[Caller], name: TopicInPath
) -> TopicLayout:
    """Which partition was split off which, and from where on it may be read."""
    return _shown(service.topics.view(caller, name))


ROUTES: Final[Sequence[HTTPRouteHandler]] = (split_topic, topic_layout)


def _shown(topic: TopicView) -> TopicLayout:
    epochs = [_epoch(split) for split in topic.splits]
    return TopicLayout(
        topic=topic.name,
        epoch=epochs[-1].epoch if epochs else 0,
        partition_count=len(topic.partitions),
        state=epochs[-1].state if epochs else "settled",
        epochs=epochs,
        partitions=[
            LayoutPartition(each.partition, each.epoch, each.parent, each.parent_end)
            for each in lineage(topic.splits, len(topic.partitions))
        ],
    )


def _epoch(split: Split) -> LayoutEpoch:
    return LayoutEpoch(
        epoch=split.epoch,
        partitions=split.partitions,
        parents=split.parents,
        ordered=split.is_ordered,
        state="draining" if split.is_draining else "settled",
        since=split.since_ms,
        drain_ms=split.drain_ms,
    )
