"""Manifests: what was written is read, and nothing else is believed."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.backup.errors import BackupDamaged
from goqueue.backup.manifest import Chunk, PartitionCopy, decode, encode
from tests.unit.backup.batches import BACKUP_ID, manifest_of

CHUNK = Chunk("cd" * 32, 100, 0, 10, 5, 7, 0, True)
MANIFEST = manifest_of(PartitionCopy(0, 10, (CHUNK,)), PartitionCopy(3, 3))


def sealed(body: bytes, version: str = "1") -> bytes:
    return f"goqueue-backup {version} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def with_change(change: Callable[[dict[str, Any]], None]) -> bytes:
    """A manifest as somebody who may write to the store could leave it: its checksum is right."""
    document = msgspec.json.decode(msgspec.json.encode(MANIFEST))
    change(document)
    return sealed(msgspec.json.encode(document))


def test_what_was_written_is_read() -> None:
    assert decode(encode(MANIFEST), BACKUP_ID) == MANIFEST
    assert MANIFEST.objects() == {"cd" * 32: 100, "ab" * 32: 10}
    assert MANIFEST.size_bytes == 110


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed(position: int, bit: int) -> None:
    content = bytearray(encode(MANIFEST))
    content[position % len(content)] ^= 1 << bit
    with pytest.raises(BackupDamaged):
        decode(bytes(content), BACKUP_ID)


@given(size=st.integers(0, 10_000))
def test_a_manifest_that_was_cut_off_is_noticed(size: int) -> None:
    content = encode(MANIFEST)
    with pytest.raises(BackupDamaged):
        decode(content[: size % len(content)], BACKUP_ID)


def topic(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["topics"][0]
    return found


def chunk(document: dict[str, Any]) -> list[Any]:
    found: list[Any] = topic(document)["partitions"][0][2][0]
    return found


HOSTILE: dict[str, Callable[[dict[str, Any]], None]] = {
    "a path for a topic": lambda d: topic(d).update(name="../../etc"),
    "a path with slashes": lambda d: topic(d).update(name="a/b"),
    "a dot": lambda d: topic(d).update(name=".."),
    "a path for an object": lambda d: chunk(d).__setitem__(0, "../" * 21 + "x"),
    "an object name in capitals": lambda d: chunk(d).__setitem__(0, "CD" * 32),
    "an endless object": lambda d: chunk(d).__setitem__(1, 2**40),
    "an empty object": lambda d: chunk(d).__setitem__(1, 0),
    "a negative offset": lambda d: chunk(d).__setitem__(2, -1),
    "a chunk beyond the end": lambda d: chunk(d).__setitem__(3, 11),
    "an end beyond all offsets": lambda d: topic(d)["partitions"][0].__setitem__(1, 2**63 - 1),
    "a gap that fills a disk": lambda d: topic(d)["partitions"].append([0, 2**61, []]),
    "a start after the end": lambda d: topic(d)["partitions"][1].__setitem__(0, 4),
    "no partition": lambda d: topic(d).update(partitions=[]),
    "a topic twice": lambda d: d["topics"].append(topic(d)),
    "chunks that overlap": lambda d: topic(d)["partitions"][0][2].append(chunk(d)),
    "another backup's id": lambda d: d.update(id="20260131T120000Z-ffffffff"),
    "a path for a cluster": lambda d: d.update(cluster_id="../x"),
    "a metadata object without end": lambda d: d.update(metadata=["ab" * 32, 2**50]),
    "text for a number": lambda d: d.update(taken_at_ms="now"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_manifests_are_refused(what: str) -> None:
    with pytest.raises(BackupDamaged, match="makes no sense"):
        decode(with_change(HOSTILE[what]), BACKUP_ID)


def test_the_form_alone_is_not_what_refuses_them() -> None:
    assert decode(with_change(lambda _: None), BACKUP_ID) == MANIFEST


def test_another_version_says_what_to_use() -> None:
    with pytest.raises(BackupDamaged, match="use the release that wrote it"):
        decode(sealed(b"{}", version="2"), BACKUP_ID)
