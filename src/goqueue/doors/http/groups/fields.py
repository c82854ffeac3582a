"""What requests and answers about groups have in common."""

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
from litestar import Request
from litestar.params import PathParameter
from msgspec import Meta

from goqueue.doors.http.topics import NewName
from goqueue.doors.http.whole_numbers import PartitionNumber, whole
from goqueue.model.groups.messages import Client
from goqueue.model.names import TopicPartition, by_topic, topic_partition
from goqueue.model.settings import INT32_MAX

# As long as a topic's name may be, and then some; Kafka has no limit of its own.
GROUP_NAME_MAX_LENGTH: Final = 255
MEMBER_ID_MAX_LENGTH: Final = 512
# A subscription is sent to the group's leader and stored with every generation.
TOPICS_MAX: Final = 1_000
PARTITIONS_MAX: Final = 10_000
# JSON numbers are exact up to here.
OFFSET_MAX: Final = 2**53 - 1
_DAY_MS: Final = 24 * 3_600_000

GroupInPath = Annotated[
    str,
    PathParameter(
        min_length=1,
        max_length=GROUP_NAME_MAX_LENGTH,
        pattern=r"^(?!\.{1,2}$)[^/\x00-\x1f\x7f]+$",
        description="The group's name.",
    ),
]
MemberId = Annotated[
    str,
    Meta(min_length=1, max_length=MEMBER_ID_MAX_LENGTH, description="As join answered it."),
]
InstanceId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=GROUP_NAME_MAX_LENGTH,
        description="Makes the member a static one: with the same instance id it comes back to "
        "its partitions, without a rebalance, until its session ends (KIP-345).",
    ),
]
ClientId = Annotated[
    str, Meta(max_length=GROUP_NAME_MAX_LENGTH, description="Shown when the group is described.")
]
Topics = Annotated[list[NewName], Meta(min_length=1, max_length=TOPICS_MAX)]
# A day: far beyond any sensible time-out, and far below what the broker's timers hold.
TimeoutMs = Annotated[float, Meta(ge=1, le=_DAY_MS, multiple_of=1)]
Epoch = Annotated[float, Meta(ge=0, le=INT32_MAX, multiple_of=1)]
Offset = Annotated[float, Meta(ge=0, le=OFFSET_MAX, multiple_of=1)]


# As large as an offset may be.
AnswerNumber = Offset
ShownAnswer = Annotated[
    int,
    Meta(description="For `after` of the next read: the number of the last answer with messages."),
]


class TopicPartitions(msgspec.Struct, frozen=True):
    topic: str
    partitions: list[int]


class NamedPartitions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: NewName
    partitions: Annotated[list[PartitionNumber], Meta(max_length=PARTITIONS_MAX)]


def show_partitions(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    return [TopicPartitions(topic, numbers) for topic, numbers in by_topic(partitions).items()]


def named_partitions(given: Iterable[NamedPartitions]) -> frozenset[TopicPartition]:
    return frozenset(
        topic_partition(named.topic, whole(number))
        for named in given
        for number in named.partitions
    )


def client_of(request: Request[Any, Any, Any], client_id: str) -> Client:
    return Client(client_id=client_id, host=request.client.host if request.client else "")
