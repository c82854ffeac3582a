"""What waits until all brokers of a cluster are upgraded, and what keeps earlier ones out then.

    level  came with        what an earlier release would do with it
      1    clusters
      2    moves            drop the move with its next write of the partition
           splits           drop them with its next write of the topic, and withhold nothing
           topic settings   fail to host a topic that has one which it does not know
           group settings   fail to coordinate groups at all, where one group has such a setting
           streams groups   fail to load the partition of the offsets topic with their records
           broker settings  pass over them
           client metrics   pass over them
           backups          go on compacting, and deciding transactions
      3    security         let everybody in, and hold nobody to rules or quotas

A feature is used first when all brokers that the cluster knows say that they know it: also those
that are down, since one that was only cut off comes back as it was. What is stored then comes with
the level, in one write or after it, and from then on no earlier release joins. Pure.
"""

from collections.abc import Container, Iterable, Mapping
from enum import Enum
from typing import Final

from goqueue.model.broker_config import TOPIC_DEFAULT_PREFIX
from goqueue.model.errors import OlderBrokers
from goqueue.model.groups.config import GROUP_SETTINGS
from goqueue.model.names import NodeId
from goqueue.model.replication_config import MOVE_RATE, MOVES_PAUSED
from goqueue.model.runtime_config import RUNTIME_SETTINGS
from goqueue.state import metadata_keys as keys
from goqueue.state.metadata_image import MetadataImage


class Feature(Enum):
    """The level that has it, and what it is called where it is refused."""

    MOVES = (2, "moving partitions")
    SPLITS = (2, "adding partitions with the order of keys kept")
    TOPIC_SETTINGS = (2, "partition.growth")
    GROUP_SETTINGS = (2, "settings of streams groups")
    STREAMS_GROUPS = (2, "streams groups")
    BROKER_SETTINGS = (2, "changing these settings of brokers at run time")
    CLIENT_METRICS = (2, "subscribing to metrics of clients")
    BACKUPS = (2, "backups")
    SECURITY = (3, "users, rules and quotas")

    @property
    def level(self) -> int:
        return self.value[0]

    @property
    def title(self) -> str:
        return self.value[1]


_GROWTH: Final = "partition.growth"
# Settings that came with a level; those of a subscription to client metrics all did.
_NEWER: Final[Mapping[Feature, Container[str]]] = {
    Feature.TOPIC_SETTINGS: {_GROWTH},
    Feature.GROUP_SETTINGS: {name for name in GROUP_SETTINGS if name.startswith("streams.")},
    Feature.BROKER_SETTINGS: {
        *RUNTIME_SETTINGS,
        MOVE_RATE,
        MOVES_PAUSED,
        TOPIC_DEFAULT_PREFIX + _GROWTH,
    },
}


def first_use(image: MetadataImage, feature: Feature) -> list[keys.Entry]:
    """What is to be stored with the feature; `OlderBrokers` while a broker does not know it."""
    if image.feature_level >= feature.level:
        return []
    _check(image, feature, {*image.brokers, *image.nodes})
    return [keys.feature_level_entry(feature.level)]


def first_use_in(
    image: MetadataImage, feature: Feature, settings: Iterable[str]
) -> list[keys.Entry]:
    """The same of settings, if one of them is newer than the first level."""
    newer = _NEWER.get(feature)
    if any(newer is None or name in newer for name in settings):
        return first_use(image, feature)
    return []


def check_present(image: MetadataImage, feature: Feature) -> None:
    """For what is not stored: only brokers that are there must know it."""
    if image.feature_level < feature.level:
        _check(image, feature, image.brokers)


def _check(image: MetadataImage, feature: Feature, nodes: Iterable[NodeId]) -> None:
    level = feature.level
    older = sorted(node for node in nodes if (_level_of(image, node) or level) < level)
    if older:
        names = ", ".join(
            f"{node}" if node in image.brokers else f"{node} (down)" for node in older
        )
        raise OlderBrokers(
            f"{feature.title}: needs feature level {level}, which brokers of the cluster do not "
            f"have: {names}; upgrade them, or forget those that are gone for good "
            "(`goqueue cluster leave`)"
        )


def _level_of(image: MetadataImage, node: NodeId) -> int | None:
    """None of a node of one, which is as new as whoever asks."""
    broker = image.brokers.get(node)
    if broker is not None and broker.registration is not None:
        return broker.registration.feature_level
    known = image.nodes.get(node)
    return None if known is None else known.record.feature_level
