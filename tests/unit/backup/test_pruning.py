"""Which backups stay, which objects nobody needs, and who may remove them when."""

from pathlib import Path

import pytest

from goqueue.backup.catalogue import Catalogue
from goqueue.backup.errors import BackupFailed
from goqueue.backup.manifest import Chunk, PartitionCopy, StoredObject
from goqueue.backup.pruning import choose, unneeded
from goqueue.backup.removing import plan_prune, remove
from goqueue.backup.running import STALE_MS, Work, at_work, marked
from goqueue.backup.stores import FolderStore
from tests.unit.backup.batches import manifest_of

IDS = [f"2026013{day}T120000Z-0123abcd" for day in range(4)]


def test_the_newest_stay_and_those_since() -> None:
    taken = dict(zip(IDS, (10, 20, 30, 40), strict=True))
    assert choose(taken, keep=1, since_ms=None).kept == IDS[3:]
    assert choose(taken, keep=1, since_ms=20).removed == IDS[:1]
    assert choose(taken, keep=9, since_ms=None).removed == []


def backup(catalogue: Catalogue, backup_id: str, *names: str) -> None:
    """One whose objects are called so: pairs of digits."""
    chunks = []
    for number, name in enumerate(names):
        sha = name * 32
        catalogue.put(sha, b"content")
        chunks.append(Chunk(sha, 7, number, number + 1, number, 0, 0, True))
    copy = PartitionCopy(0, len(names), tuple(chunks))
    catalogue.put("ff" * 32, b"metadata")
    catalogue.write(manifest_of(copy, metadata=StoredObject("ff" * 32, 8), backup=backup_id))


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    catalogue = Catalogue(FolderStore(tmp_path, str(tmp_path)))
    backup(catalogue, IDS[0], "01", "02")
    backup(catalogue, IDS[1], "02", "03")
    # Of a backup that never ended.
    catalogue.put("0e" * 32, b"rest")
    return catalogue


def test_what_is_needed_stays(catalogue: Catalogue) -> None:
    chosen = plan_prune(catalogue, keep=1, since_ms=None)
    done = remove(catalogue, chosen)
    assert catalogue.ids() == [IDS[1]]
    assert sorted(catalogue.objects()) == ["02" * 32, "03" * 32, "ff" * 32]
    assert (done.objects, done.bytes) == (2, 11)
    assert unneeded(catalogue.objects(), list(catalogue.manifests())) == []


def test_beside_a_backup_that_is_being_made_no_object_goes(catalogue: Catalogue) -> None:
    chosen = plan_prune(catalogue, keep=1, since_ms=None)
    with marked(catalogue.store, "somebody", Work.CREATE):
        done = remove(catalogue, chosen)
    assert done.beside == ["somebody"]
    assert len(catalogue.objects()) == 5
    assert catalogue.ids() == [IDS[1]]
    # The next one finds what was left.
    assert remove(catalogue, plan_prune(catalogue, keep=1, since_ms=None)).objects == 2


def test_marks_of_the_dead_do_not_count_for_ever(catalogue: Catalogue) -> None:
    with marked(catalogue.store, "somebody", Work.PRUNE):
        now_ms = 10**13
        assert at_work(catalogue.store, Work.PRUNE, now_ms=now_ms) == []
        assert at_work(catalogue.store, Work.PRUNE, now_ms=0) == ["somebody"]
        assert at_work(catalogue.store, Work.CREATE, now_ms=0) == []
    assert at_work(catalogue.store, Work.PRUNE, now_ms=0) == []
    assert STALE_MS > 0


def test_a_damaged_manifest_stops_it(catalogue: Catalogue, tmp_path: Path) -> None:
    """Nobody knows what it needs."""
    (tmp_path / "backups" / f"{IDS[0]}.manifest").write_bytes(b"nothing")
    with pytest.raises(BackupFailed):
        plan_prune(catalogue, keep=1, since_ms=None)
    assert len(catalogue.objects()) == 5
    # A later backup goes by the newest that can be read.
    found = catalogue.newest_of("cluster-of-tests")
    assert found is not None
    assert found.id == IDS[1]
