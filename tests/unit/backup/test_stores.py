"""What every store promises: whole objects, bounded reads, lists."""

from pathlib import Path

import pytest

from goqueue.backup.errors import BackupDamaged, BackupFailed
from goqueue.backup.object_store import ObjectStore
from goqueue.backup.stores import FolderStore, Store, open_store


@pytest.fixture(params=["folder", "arrow"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "folder":
        return open_store(f"file://{tmp_path}")
    return ObjectStore(f"file://{tmp_path}")


def test_objects_come_and_go(store: Store) -> None:
    assert store.size("objects/ab/one") is None
    assert list(store.names("objects")) == []
    store.put("objects/ab/one", b"first")
    store.put("objects/ab/one", b"second")
    store.put("backups/two", b"")
    assert store.get("objects/ab/one", size_max=6) == b"second"
    assert store.size("objects/ab/one") == 6
    assert [tuple(found) for found in store.names("objects")] == [("objects/ab/one", 6)]
    store.remove("objects/ab/one")
    store.remove("objects/ab/one")
    with pytest.raises(FileNotFoundError):
        store.get("objects/ab/one", size_max=6)


def test_more_than_was_expected_is_not_read(store: Store) -> None:
    store.put("large", bytes(100))
    with pytest.raises(BackupDamaged, match="more than 99 bytes"):
        store.get("large", size_max=99)


def test_a_put_that_was_cut_short_is_not_seen(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, str(tmp_path))
    store.put("objects/ab/one", b"whole")
    (tmp_path / "objects" / "ab" / "one.0123abcd.tmp").write_bytes(b"ha")
    assert [found.name for found in store.names("objects")] == ["objects/ab/one"]


def test_addresses_that_make_no_sense_say_what_would() -> None:
    with pytest.raises(BackupFailed, match="s3://bucket/path"):
        open_store("gopher://somewhere/path")
    with pytest.raises(BackupFailed, match="s3://bucket/path"):
        open_store("s3://")
