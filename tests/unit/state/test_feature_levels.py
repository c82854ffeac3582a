"""Which brokers are too old for what, from keys as releases store them."""

import json
from uuid import UUID

import pytest

from goqueue.model.errors import OlderBrokers
from goqueue.model.runtime_config import DYNAMIC_BROKER_SETTINGS
from goqueue.state import metadata_keys as keys
from goqueue.state.membership.feature_levels import (
    Feature,
    check_present,
    first_use,
    first_use_in,
)
from goqueue.state.metadata_image import MetadataImage

FOLDER = "00000000-0000-0000-0000-000000000001"
# As the first release that formed clusters stores them.
NODE = {
    "directory": FOLDER,
    "incarnation": FOLDER,
    "broker_epoch": 7,
    "is_draining": False,
    "is_cordoned": False,
}
REGISTRATION = {"directory": FOLDER, "trail": [FOLDER], "is_kept": True, "is_cordoned": False}
BROKER = {"host": "localhost", "kafka_port": 1, "http_port": 1, "registration": REGISTRATION}
# What that release lets be changed while a broker runs.
CHANGED_BEFORE = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "cordoned.log.dirs",
)


def image(**stored: object) -> MetadataImage:
    """`nodes_1={…}` is the key `/nodes/1`."""
    entries = [
        (f"/{name.replace('_', '/')}", json.dumps(value).encode(), revision)
        for revision, (name, value) in enumerate(stored.items(), start=2)
    ]
    found, _ = MetadataImage.empty().apply(len(entries) + 2, entries)
    return found


def newer(what: dict[str, object]) -> dict[str, object]:
    return {**what, "feature_level": 2}


def test_all_that_are_known_must_be_new() -> None:
    new = {**BROKER, "registration": newer(REGISTRATION)}
    both = image(brokers_1=new, brokers_2=BROKER, nodes_1=newer(NODE), nodes_2=NODE)
    with pytest.raises(OlderBrokers, match=r"streams groups: needs feature level 2, .*: 2; "):
        first_use(both, Feature.STREAMS_GROUPS)
    with pytest.raises(OlderBrokers):
        check_present(both, Feature.BACKUPS)
    down = image(brokers_1=new, nodes_1=newer(NODE), nodes_2=NODE)
    with pytest.raises(OlderBrokers, match=r": 2 \(down\); "):
        first_use(down, Feature.STREAMS_GROUPS)
    check_present(down, Feature.BACKUPS)
    # What it says when it registers counts, whoever noted less when it was admitted.
    upgraded = image(brokers_1=new, nodes_1=NODE, nodes_2=newer(NODE))
    assert first_use(upgraded, Feature.STREAMS_GROUPS) == [keys.feature_level_entry(2)]


def test_nobody_is_asked_where_the_level_is_there() -> None:
    there = image(nodes_1=NODE, **{"cluster_feature-level": 2})
    assert there.feature_level == 2
    assert first_use(there, Feature.MOVES) == []


def test_a_node_of_one_is_as_new_as_it_is() -> None:
    alone = image(brokers_0={"host": "localhost", "kafka_port": 1, "http_port": 1})
    assert first_use(alone, Feature.SPLITS) == [keys.feature_level_entry(2)]


def test_settings_that_the_first_release_knows_need_no_level() -> None:
    old = image(nodes_1=NODE)
    for feature, names in (
        (Feature.BROKER_SETTINGS, (*CHANGED_BEFORE, "topic.retention.ms")),
        (Feature.TOPIC_SETTINGS, ("retention.ms",)),
        (Feature.GROUP_SETTINGS, ("consumer.session.timeout.ms",)),
        (Feature.CLIENT_METRICS, ()),
    ):
        assert first_use_in(old, feature, names) == []
    # All others came later, and each that comes is one of those.
    for name in DYNAMIC_BROKER_SETTINGS:
        is_old = name in CHANGED_BEFORE or name.startswith("topic.")
        if not is_old or name == "topic.partition.growth":
            with pytest.raises(OlderBrokers):
                first_use_in(old, Feature.BROKER_SETTINGS, [name])
    for feature, name in (
        (Feature.TOPIC_SETTINGS, "partition.growth"),
        (Feature.GROUP_SETTINGS, "streams.session.timeout.ms"),
        (Feature.CLIENT_METRICS, "metrics"),
    ):
        with pytest.raises(OlderBrokers):
            first_use_in(old, feature, [name])


def test_a_topic_that_was_not_split_is_stored_as_before() -> None:
    """An earlier release reads it, and writes nothing less of it."""
    _, stored = keys.topic_entry("t", keys.TopicValue(id=UUID(FOLDER), partitions=3))
    assert json.loads(stored) == {"id": FOLDER, "partitions": 3}
