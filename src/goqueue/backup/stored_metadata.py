"""The metadata of a backup: keys and values, held against the topics of its manifest."""

import msgspec

from goqueue.backup.catalogue import Catalogue
from goqueue.backup.errors import BackupDamaged, BackupTooNew
from goqueue.backup.manifest import Manifest
from goqueue.model.errors import MetadataCorrupt
from goqueue.model.membership import FEATURE_LEVEL
from goqueue.state import metadata_keys as keys


def read_metadata(catalogue: Catalogue, manifest: Manifest) -> dict[str, bytes]:
    content = catalogue.get(manifest.metadata.sha, manifest.metadata.size)
    try:
        stored = msgspec.json.decode(content, type=dict[str, str])
        entries = {key: value.encode() for key, value in stored.items()}
        level = _feature_level(entries)
        topics, partitions = _known(entries)
    except (msgspec.MsgspecError, MetadataCorrupt, UnicodeError) as error:
        raise BackupDamaged(
            f"the metadata of backup {manifest.id} make no sense: {error}"
        ) from error
    if level > FEATURE_LEVEL:
        raise BackupTooNew(
            f"backup {manifest.id} is of a cluster at feature level {level}; this release knows "
            f"{FEATURE_LEVEL}: use the release that wrote it"
        )
    expected = {topic.name: (topic.id, len(topic.partitions)) for topic in manifest.topics}
    if {name: (known.id, known.partitions) for name, known in topics.items()} != expected:
        raise BackupDamaged(f"the metadata of backup {manifest.id} have other topics than it has")
    if partitions != {
        (name, index) for name, (_, count) in expected.items() for index in range(count)
    }:
        raise BackupDamaged(f"the metadata of backup {manifest.id} have other partitions")
    return entries


def _feature_level(entries: dict[str, bytes]) -> int:
    """0 where a single broker was copied, which has none."""
    key = keys.FEATURE_LEVEL_KEY
    return keys.decode_value(key, entries[key], int) if key in entries else 0


def _known(
    entries: dict[str, bytes],
) -> tuple[dict[str, keys.TopicValue], set[tuple[str, int]]]:
    topics: dict[str, keys.TopicValue] = {}
    partitions: set[tuple[str, int]] = set()
    for key, value in entries.items():
        match keys.parse_key(key):
            case keys.TopicKey(name):
                topics[name] = keys.decode_value(key, value, keys.TopicValue)
            case keys.PartitionKey(topic, index):
                keys.decode_partition(key, value)
                partitions.add((topic, index))
    return topics, partitions
