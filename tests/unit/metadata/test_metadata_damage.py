"""Damaged, torn and missing metadata files."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from goqueue.metadata import LocalStore, Put
from goqueue.metadata.files import Files
from goqueue.metadata.framing import HEADER_SIZE_BYTES, encode_header
from goqueue.metadata.journal import Journal
from goqueue.model.errors import MetadataCorrupt

Contents = dict[str, bytes]


class UnsyncedFiles(Files):
    """Fast; what is tested here is what recovery makes of given bytes."""

    def sync(self, file: int) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


class Written:
    """A store whose log has one entry per step, and the contents after each of its sizes."""

    def __init__(self, path: Path, *, seal: bool) -> None:
        self.path = path
        self.states: list[tuple[int, Contents]] = []
        asyncio.run(self._write(seal))
        (self.log,) = path.glob("log-*")
        (self.snapshot,) = path.glob("snapshot-*")
        self.log_bytes = self.log.read_bytes()

    async def _write(self, seal: bool) -> None:
        store = await LocalStore.open(self.path, files=UnsyncedFiles())
        await self._note(store)
        lease = await store.grant_lease(60_000)
        await self._note(store)
        for i in range(4):
            await store.transact((), (Put("/k", b"%d" % i), Put(f"/k/{i}", b"x", lease)))
            await self._note(store)
        await store.revoke(lease)
        await self._note(store)
        if seal:
            await store.close()
        else:
            shutil.copytree(self.path, self.path / "copy")
            await store.close()
            self.path = self.path / "copy"

    async def _note(self, store: LocalStore) -> None:
        (log,) = self.path.glob("log-*")
        self.states.append((log.stat().st_size, await contents(store)))

    def expected_at(self, size_bytes: int) -> Contents:
        return [state for size, state in self.states if size <= size_bytes][-1]


async def contents(store: LocalStore) -> Contents:
    return {kv.key: kv.value for kv in (await store.get_prefix("")).kvs}


def read_back(path: Path) -> Contents:
    async def read() -> Contents:
        store = await LocalStore.open(path, files=UnsyncedFiles())
        found = await contents(store)
        await store.put("/writable", b"")
        await store.close()
        again = await LocalStore.open(path, files=UnsyncedFiles())
        assert await contents(again) == found | {"/writable": b""}
        await again.close()
        return found

    return asyncio.run(read())


def damaged(written: Written, target: Path, log_bytes: bytes) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    shutil.copy(written.snapshot, target)
    (target / written.log.name).write_bytes(log_bytes)
    return target


def test_log_cut_at_every_byte(tmp_path: Path) -> None:
    written = Written(tmp_path / "store", seal=False)
    for size in range(HEADER_SIZE_BYTES, len(written.log_bytes) + 1):
        path = damaged(written, tmp_path / "cut", written.log_bytes[:size])
        assert read_back(path) == written.expected_at(size), size


def test_log_with_zeros_or_rubbish_at_its_end(tmp_path: Path) -> None:
    written = Written(tmp_path / "store", seal=False)
    last_state_at = written.states[-2][0]
    for size in range(last_state_at, len(written.log_bytes), 7):
        for fill in (b"\0", b"\xff", b"\xff\xfegq"):
            tail = fill * ((len(written.log_bytes) - size) // len(fill) + 1)
            path = damaged(written, tmp_path / "torn", written.log_bytes[:size] + tail)
            assert read_back(path) == written.expected_at(size), (size, fill)


def test_changed_byte_is_never_read_as_data(tmp_path: Path) -> None:
    """In a sealed log every change of an entry shows; of the seal itself it does no harm."""
    written = Written(tmp_path / "store", seal=True)
    seal_at, everything = written.states[-1]
    for position in range(len(written.log_bytes)):
        changed = bytearray(written.log_bytes)
        changed[position] ^= 0x41
        path = damaged(written, tmp_path / "changed", bytes(changed))
        if position < seal_at:
            before = {file.name: file.read_bytes() for file in path.iterdir()}
            with pytest.raises(MetadataCorrupt, match=r"log-.*backup"):
                read_back(path)
            assert {file.name: file.read_bytes() for file in path.iterdir()} == before
        else:
            assert read_back(path) == everything


def test_damaged_snapshot_is_refused(tmp_path: Path) -> None:
    written = Written(tmp_path / "first", seal=True)
    read_back(written.path)
    (snapshot,) = written.path.glob("snapshot-*")
    whole = snapshot.read_bytes()
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 0x41
        snapshot.write_bytes(changed)
        with pytest.raises(MetadataCorrupt, match="snapshot-"):
            read_back(written.path)
    for size in range(len(whole)):
        snapshot.write_bytes(whole[:size])
        with pytest.raises(MetadataCorrupt, match="snapshot-"):
            read_back(written.path)
    snapshot.write_bytes(whole + b"more")
    with pytest.raises(MetadataCorrupt, match="snapshot-"):
        read_back(written.path)


@pytest.mark.parametrize("kind", ["log", "snapshot"])
def test_missing_file_is_refused(tmp_path: Path, kind: str) -> None:
    written = Written(tmp_path, seal=True)
    (file,) = written.path.glob(f"{kind}-*")
    file.unlink()
    with pytest.raises(MetadataCorrupt, match=f"{kind}-0+1 is missing"):
        read_back(written.path)


def _other_version(log: Path) -> None:
    header = bytearray(encode_header(b"gqmdlog\0", 1, 0))
    header[11] = 9
    log.write_bytes(bytes(header[:-4]) + crc32c(bytes(header[:-4])).to_bytes(4, "big"))


def _other_generation(log: Path) -> None:
    log.write_bytes(encode_header(b"gqmdlog\0", 7, 0))


def _other_kind(log: Path) -> None:
    log.write_bytes(encode_header(b"gqmdsnap", 1, 0))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (_other_version, "format version 9; this release reads 1"),
        (_other_generation, "was written as generation 7"),
        (_other_kind, "damaged header"),
    ],
)
def test_foreign_log_is_refused(
    tmp_path: Path, change: Callable[[Path], None], complaint: str
) -> None:
    written = Written(tmp_path, seal=True)
    change(written.log)
    with pytest.raises(MetadataCorrupt, match=complaint):
        read_back(tmp_path)


def test_entries_of_another_store_are_refused(tmp_path: Path) -> None:
    """A whole frame whose content makes no sense is not taken for a torn tail."""
    journal = Journal(tmp_path, UnsyncedFiles())
    assert journal.recover() is None
    journal.roll(b"\x93what")
    journal.close(seal=True)
    with pytest.raises(MetadataCorrupt, match="make no sense"):
        read_back(tmp_path)


def test_files_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("notes")
    written = Written(tmp_path, seal=True)
    read_back(written.path)
    assert (tmp_path / "README").read_text() == "notes"
