"""One broker per folder, a known format, and whether the last one left in order."""

import errno
import re
from pathlib import Path
from uuid import UUID

import pytest

from goqueue.model.errors import DataDirectoryError
from goqueue.model.names import topic_partition
from goqueue.storage.clean_stop import CleanStop
from goqueue.storage.data_directory import DataDirectory, FolderFormat
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import load, save
from goqueue.testing.faulty_disk import FaultyDisk
from tests.unit.storage.stored_log import NAME, TOPIC_ID, append, open_log


def test_a_new_directory_gets_a_cluster_id_that_stays(tmp_path: Path) -> None:
    first = DataDirectory.open(tmp_path / "new" / "data")
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", first.cluster_id)
    first.close(CleanStop())

    second = DataDirectory.open(tmp_path / "new" / "data")

    assert second.cluster_id == first.cluster_id
    assert second.metadata_path.is_dir()
    assert second.logs_path.is_dir()


@pytest.mark.parametrize("clean", [True, False])
def test_a_clean_shutdown_is_known_once(tmp_path: Path, clean: bool) -> None:
    DataDirectory.open(tmp_path).close(CleanStop() if clean else None)

    second = DataDirectory.open(tmp_path)
    assert (second.last_stop is not None) is clean
    # As after a crash: the lock goes with the process, nothing else happens.
    assert second._lock is not None
    second._lock.close()

    assert DataDirectory.open(tmp_path).last_stop is None


def test_a_second_broker_is_refused(tmp_path: Path) -> None:
    first = DataDirectory.open(tmp_path)

    with pytest.raises(DataDirectoryError, match="in use by another broker; stop that one or"):
        DataDirectory.open(tmp_path)

    first.close(None)
    DataDirectory.open(tmp_path).close(CleanStop())


def test_an_unknown_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    DataDirectory.open(tmp_path).close(CleanStop())
    save(Disk(), tmp_path / "format.json", {"version": 3, "something": "else"})
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    with pytest.raises(DataDirectoryError, match=r"format version 3; this release reads .* to 2"):
        DataDirectory.open(tmp_path)

    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_folder_of_an_earlier_format_is_taken_over_when_a_broker_uses_it(tmp_path: Path) -> None:
    def stored() -> FolderFormat | None:
        return load(Disk(), tmp_path / "format.json", FolderFormat)

    save(Disk(), tmp_path / "format.json", FolderFormat(version=1, cluster_id="c"))
    directory = DataDirectory.open(tmp_path)
    assert directory.cluster_id == "c"
    assert stored() == FolderFormat(version=1, cluster_id="c")
    directory.begin_format()
    assert stored() == FolderFormat(version=2, cluster_id="c")


def test_a_damaged_format_file_is_refused(tmp_path: Path) -> None:
    DataDirectory.open(tmp_path).close(CleanStop())
    (tmp_path / "format.json").write_text("rubbish")

    with pytest.raises(DataDirectoryError, match=r"format\.json.*restore the file from a copy"):
        DataDirectory.open(tmp_path)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(DataDirectoryError, match=r"holds 'thesis\.tex'; give an empty folder"):
        DataDirectory.open(tmp_path)


@pytest.mark.parametrize("operation", ["mkdir", "open", "pwrite", "fdatasync", "rename"])
def test_a_disk_that_refuses_is_reported_and_can_be_tried_again(
    tmp_path: Path, operation: str
) -> None:
    disk = FaultyDisk()
    disk.inject(operation, errno.ENOSPC)

    with pytest.raises(DataDirectoryError, match=r"cannot be used.*No space.*check that"):
        DataDirectory.open(tmp_path / "d", disk)

    disk.heal()
    DataDirectory.open(tmp_path / "d", disk).close(CleanStop())


def test_stored_partitions_are_told_by_their_folders(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path)
    path = directory.partition_path(NAME)
    assert path == tmp_path / "logs" / "orders-3"
    open_log(path).close()
    (directory.logs_path / "unfinished-0").mkdir()
    damaged = directory.partition_path(topic_partition("damaged", 0))
    damaged.mkdir()
    (damaged / "partition.json").write_text("rubbish")

    assert directory.stored_partitions() == [(NAME, TOPIC_ID, path)]


def test_a_marked_folder_is_known_as_such_by_its_name_only(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path)
    longest = topic_partition("t" * 249, 9_999)
    log = open_log(directory.partition_path(longest), topic_id=UUID(int=5))
    append(log, b"x")
    marked = log.mark_deleted()
    for stranger in ("notes.deleted", "0" * 32 + "-1.deleted.bak", "-0.deleted"):
        (directory.logs_path / stranger).mkdir()

    assert directory.deleted_partitions() == [marked]
    assert directory.stored_partitions() == []


def test_only_a_folder_of_the_topic_itself_is_marked(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path)
    path = directory.partition_path(NAME)
    open_log(path, topic_id=TOPIC_ID).close()

    assert directory.mark_deleted(NAME, UUID(int=99)) is None
    assert directory.mark_deleted(topic_partition("gone", 0), TOPIC_ID) is None
    assert directory.stored_partitions() == [(NAME, TOPIC_ID, path)]
    assert [directory.mark_deleted(NAME, TOPIC_ID)] == directory.deleted_partitions()
