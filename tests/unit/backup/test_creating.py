"""Backups of logs in memory that grow, are deleted, compacted and replaced between two of them."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goqueue.backup import creating
from goqueue.backup.catalogue import Catalogue
from goqueue.backup.creating import create, new_backup_id
from goqueue.backup.errors import BackupDamaged, BackupFailed, BackupTooNew
from goqueue.backup.manifest import Manifest, StoredObject, is_backup_id
from goqueue.backup.progress import Progress
from goqueue.backup.rate import Rate
from goqueue.backup.restoring import restore
from goqueue.backup.sources import Cut, StoredBatch
from goqueue.backup.stores import FolderStore
from goqueue.backup.verifying import verify
from goqueue.metadata.local import stored_entries
from goqueue.model.backups import CutPartition
from goqueue.model.batch import iterate_batches, read_header
from goqueue.model.errors import DataDirectoryError, OffsetOutOfRange
from goqueue.model.membership import FEATURE_LEVEL
from goqueue.model.names import NodeId, PartitionIndex, TopicName
from goqueue.model.replication import Member, PartitionState
from goqueue.state import metadata_keys as keys
from goqueue.storage.data_directory import DataDirectory
from tests.unit.backup.batches import CLUSTER_ID, TOPIC_ID, batch, cut_of

# Three batches.
CHUNK_BYTES = 3_500
VALUE = 1_000


class FakeLog:
    """One partition. `deleted_while_read` is where its start moves to at the first read."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start = self.end = 0
        self.is_compacted = False
        self.deleted_while_read: int | None = None
        self.read_bytes = 0

    def append(self, seed: int, count: int = 1, epoch: int = 0) -> None:
        for number in range(count):
            value = f"{seed}-{number}-".encode() * VALUE
            self.batches.append(batch(self.end, value[:VALUE], epoch=epoch))
            self.end += 1

    def delete_below(self, offset: int) -> None:
        self.start = offset
        self.batches = [each for each in self.batches if read_header(each).last_offset >= offset]

    def compact(self, gone: int) -> None:
        """One batch goes, and nothing says so in what is fetched."""
        self.is_compacted = True
        del self.batches[gone]

    @property
    def cut(self) -> CutPartition:
        return replace(cut_of(self.start, self.end), is_compacted=self.is_compacted)


class FakeSource:
    def __init__(self, log: FakeLog) -> None:
        self._log = log

    def cut(self) -> Cut:
        topic = keys.topic_entry("orders", keys.TopicValue(id=TOPIC_ID, partitions=1))
        state = PartitionState(
            leader=NodeId(4),
            leader_epoch=6,
            replicas=(NodeId(4), NodeId(5)),
            in_sync=(Member(NodeId(4), 17),),
            eligible=(Member(NodeId(5), 18),),
        )
        partition = keys.partition_entry("orders", 0, state)
        entries = [topic, partition, keys.controller_entry(NodeId(4))]
        return Cut(
            cluster_id=CLUSTER_ID,
            is_cluster=True,
            taken_at_ms=1_000,
            partitions=[self._log.cut],
            metadata={key: value.decode() for key, value in entries},
        )

    def reader(self) -> "FakeSource":
        return self

    def check(self) -> None: ...

    def close(self) -> None: ...

    def start_of(self, cut: CutPartition) -> int:
        return self._log.start

    def batches(self, cut: CutPartition, start: int) -> Iterator[StoredBatch]:
        log = self._log
        if log.deleted_while_read is not None:
            log.delete_below(log.deleted_while_read)
            log.deleted_while_read = None
        if start < log.start:
            raise OffsetOutOfRange("gone")
        for each in list(log.batches):
            header = read_header(each)
            if header.last_offset >= start and header.base_offset < cut.end:
                log.read_bytes += len(each)
                yield StoredBatch(each, header)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creating, "chunk_bytes", lambda _: CHUNK_BYTES)


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    return Catalogue(FolderStore(tmp_path / "store", "store"))


def back_up(catalogue: Catalogue, log: FakeLog) -> Manifest:
    return create(
        catalogue,
        FakeSource(log),
        jobs=2,
        rate=Rate(None),
        progress=Progress(None),
        tell=lambda text: None,
    )


def content(catalogue: Catalogue, manifest: Manifest) -> bytes:
    """What a reader will find: the first chunk may begin with what was deleted since."""
    [[partition]] = [topic.partitions for topic in manifest.topics]
    stored = b"".join(catalogue.get(chunk.sha, chunk.size) for chunk in partition.chunks)
    return b"".join(
        stored[at : at + header.size_bytes]
        for at, header in iterate_batches(stored)
        if header.last_offset >= partition.start
    )


def problems(catalogue: Catalogue, manifest: Manifest) -> list[str]:
    found = verify(catalogue, manifest, jobs=2, rate=Rate(None), progress=Progress(None))
    return [each.problem for each in found.problems]


def restore_to(catalogue: Catalogue, manifest: Manifest, target: Path) -> None:
    restore(
        catalogue,
        manifest,
        target,
        node_id=NodeId(3),
        jobs=2,
        rate=Rate(None),
        progress=Progress(None),
    )


def restored_log(target: Path) -> list[bytes]:
    segments = sorted((target / "logs" / "orders-0").glob("*.log"))
    found = []
    for segment in segments:
        stored = segment.read_bytes()
        located = list(iterate_batches(stored))
        assert int(segment.stem) == located[0][1].base_offset
        found += [stored[at : at + header.size_bytes] for at, header in located]
    return found


def test_only_what_is_new_is_read_and_stored(catalogue: Catalogue) -> None:
    log = FakeLog()
    log.append(1, 10)
    first = back_up(catalogue, log)
    log.append(2, 2)
    log.read_bytes = 0
    second = back_up(catalogue, log)
    assert content(catalogue, second) == b"".join(log.batches)
    # The rest of the chunk that was not full, what came after it, and one batch to be sure.
    assert log.read_bytes <= 5 * (VALUE + 200)
    assert second.new_bytes < first.new_bytes / 2
    assert back_up(catalogue, log).new_bytes == 0


@given(data=st.data())
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_backup_is_the_log_of_its_time(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    catalogue = Catalogue(FolderStore(tmp_path_factory.mktemp("store"), "store"))
    log = FakeLog()
    expected: list[tuple[Manifest, bytes]] = []
    for seed in range(data.draw(st.integers(1, 5))):
        match data.draw(st.sampled_from(["grow", "delete", "replace", "compact", "lose"])):
            case "delete" if log.batches:
                log.delete_below(data.draw(st.integers(log.start, log.end)))
            case "replace" if log.batches:
                # Another history of the same topic: restored from an older backup, or cut off.
                kept = data.draw(st.integers(0, len(log.batches)))
                log.batches = log.batches[:kept]
                log.end = read_header(log.batches[-1]).next_offset if log.batches else log.start
            case "compact" if len(log.batches) > 1:
                log.compact(data.draw(st.integers(0, len(log.batches) - 2)))
            case "lose" if catalogue.objects():
                lost = data.draw(st.sampled_from(sorted(catalogue.objects())))
                catalogue.remove_object(lost)
                expected = [each for each in expected if lost not in each[0].objects()]
        log.append(seed, data.draw(st.integers(1, 6)))
        made = back_up(catalogue, log)
        first = read_header(log.batches[0]).base_offset if log.batches else 0
        assert first <= log.end
        expected.append((made, b"".join(log.batches)))
    for manifest, was in expected:
        assert content(catalogue, manifest) == was
        assert problems(catalogue, catalogue.find(manifest.id)) == []


def test_what_retention_deletes_meanwhile_is_deleted_in_the_backup(catalogue: Catalogue) -> None:
    log = FakeLog()
    log.append(1, 6)
    log.deleted_while_read = 3
    made = back_up(catalogue, log)
    [[partition]] = [topic.partitions for topic in made.topics]
    assert (partition.start, partition.end) == (3, 6)
    assert content(catalogue, made) == b"".join(log.batches)
    log.deleted_while_read = 6
    gone = back_up(catalogue, log)
    [[partition]] = [topic.partitions for topic in gone.topics]
    assert (partition.start, partition.end, partition.chunks) == (6, 6, ())


def test_ids_sort_by_time() -> None:
    moment = datetime(2026, 1, 31, 12, 0, 0, 998_000, tzinfo=UTC)
    ids = [new_backup_id(moment + timedelta(milliseconds=n)) for n in range(5)]
    assert ids == sorted(ids)
    assert all(map(is_backup_id, ids))
    assert len({new_backup_id(moment) for _ in range(10)}) > 1


def test_a_restored_folder_is_that_of_a_node_of_one(catalogue: Catalogue, tmp_path: Path) -> None:
    log = FakeLog()
    log.append(1, 5)
    log.delete_below(1)
    made = back_up(catalogue, log)
    restore_to(catalogue, made, tmp_path / "node")
    assert restored_log(tmp_path / "node") == log.batches
    directory = DataDirectory.open(tmp_path / "node")
    try:
        assert directory.cluster_id == CLUSTER_ID
        [folder] = directory.stored_partitions()
        assert (str(folder.tp), folder.topic_id) == ("orders-0", TOPIC_ID)
    finally:
        directory.close(None)
    entries = stored_entries(tmp_path / "node" / "metadata")
    key = keys.partition_key(TopicName("orders"), PartitionIndex(0))
    assert keys.decode_partition(key, entries[key]) == PartitionState(
        leader=NodeId(3),
        leader_epoch=7,
        replicas=(NodeId(3),),
        in_sync=(Member(NodeId(3), 0),),
    )
    assert keys.CONTROLLER_KEY not in entries


def test_a_restored_log_has_no_gaps(catalogue: Catalogue, tmp_path: Path) -> None:
    log = FakeLog()
    log.append(1, 8)
    for gone in (6, 3, 0):
        log.compact(gone)
    # And its last records.
    log.end += 5
    made = back_up(catalogue, log)
    restore_to(catalogue, made, tmp_path / "node")
    restored = [read_header(each) for each in restored_log(tmp_path / "node")]
    assert restored[0].base_offset == 0
    assert restored[-1].next_offset == log.end
    for header, following in pairwise(restored):
        assert header.next_offset == following.base_offset
    kept = [each for each in restored_log(tmp_path / "node") if read_header(each).record_count]
    assert kept == log.batches


def test_a_log_of_which_nothing_is_left_keeps_its_offsets(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    log = FakeLog()
    log.append(1, 4)
    log.delete_below(4)
    restore_to(catalogue, back_up(catalogue, log), tmp_path / "empty")
    assert restored_log(tmp_path / "empty") == []
    log.start = 2
    restore_to(catalogue, back_up(catalogue, log), tmp_path / "gaps")
    [gap] = restored_log(tmp_path / "gaps")
    assert (read_header(gap).base_offset, read_header(gap).next_offset) == (2, 4)


def test_a_restore_that_was_cut_short_is_no_node_and_is_begun_again(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    log = FakeLog()
    log.append(1, 5)
    made = back_up(catalogue, log)
    target = tmp_path / "node"
    lost = catalogue.get(*next(iter(made.objects().items())))
    [first, *_] = made.objects()
    catalogue.remove_object(first)
    with pytest.raises(BackupDamaged, match="is missing"):
        restore_to(catalogue, made, target)
    with pytest.raises(DataDirectoryError, match="run `goqueue backup restore` again"):
        DataDirectory.open(target)
    catalogue.put(first, lost)
    restore_to(catalogue, made, target)
    assert restored_log(target) == log.batches
    with pytest.raises(BackupFailed, match="is not empty"):
        restore_to(catalogue, made, target)


def test_nothing_is_removed_from_a_folder_of_somebody_else(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    log = FakeLog()
    log.append(1)
    made = back_up(catalogue, log)
    target = tmp_path / "home"
    (target / "logs").mkdir(parents=True)
    (target / "logs" / "mine").write_text("precious")
    with pytest.raises(BackupFailed, match="is not empty"):
        restore_to(catalogue, made, target)
    assert (target / "logs" / "mine").read_text() == "precious"


@pytest.mark.parametrize("damage", ["flip", "cut", "lose", "swap"])
def test_a_damaged_object_is_found_and_stored_again(catalogue: Catalogue, damage: str) -> None:
    log = FakeLog()
    log.append(1, 8)
    made = back_up(catalogue, log)
    [victim, other, *_] = [chunk.sha for chunk in made.chunks()]
    stored = bytearray(catalogue.get(victim, made.objects()[victim]))
    match damage:
        case "flip":
            stored[len(stored) // 2] ^= 1
            catalogue.put(victim, bytes(stored))
        case "cut":
            catalogue.put(victim, bytes(stored[:-1]))
        case "lose":
            catalogue.remove_object(victim)
        case "swap":
            catalogue.put(victim, catalogue.get(other, made.objects()[other]))
    [problem] = problems(catalogue, made)
    assert victim in problem
    if damage in ("cut", "lose"):
        # A later backup sees that by its size, and has it stored again.
        again = back_up(catalogue, log)
        assert problems(catalogue, again) == problems(catalogue, made) == []


def test_metadata_that_do_not_fit_are_damage(catalogue: Catalogue, tmp_path: Path) -> None:
    log = FakeLog()
    log.append(1)
    made = back_up(catalogue, log)
    topic = msgspec.structs.replace(made.topics[0], name="others")
    wrong = msgspec.structs.replace(made, topics=(topic,))
    assert "other topics" in problems(catalogue, wrong)[0]
    with pytest.raises(BackupDamaged, match="other topics"):
        restore_to(catalogue, wrong, tmp_path / "node")
    assert not (tmp_path / "node").exists()


def test_metadata_of_a_later_feature_level_are_not_restored(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    log = FakeLog()
    log.append(1)
    made = back_up(catalogue, log)
    entries = msgspec.json.decode(catalogue.get(made.metadata.sha, made.metadata.size))
    key, level = keys.feature_level_entry(FEATURE_LEVEL + 1)
    content = msgspec.json.encode({**entries, key: level.decode()})
    sha = hashlib.sha256(content).hexdigest()
    catalogue.put(sha, content)
    newer = msgspec.structs.replace(made, metadata=StoredObject(sha, len(content)))
    with pytest.raises(BackupTooNew, match="use the release that wrote it"):
        restore_to(catalogue, newer, tmp_path / "node")
    assert not (tmp_path / "node").exists()
