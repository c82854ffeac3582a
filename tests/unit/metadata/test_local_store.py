"""What is particular to `LocalStore`: when it answers, what it writes, how it fails."""

import asyncio
import contextlib
import errno
import threading
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

import pytest

from goqueue.metadata import Compare, LocalStore, LocalStoreLimits, Put
from goqueue.metadata.files import Files
from goqueue.model.errors import (
    InvalidRequest,
    MetadataUnavailable,
    ShuttingDown,
)

PATIENCE_S = 60

T = TypeVar("T")


class GatedFiles(Files):
    """Syncs wait for the gate and are counted."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.syncs = 0
        self.written: list[int] = []

    def write(self, file: int, data: bytes) -> None:
        self.written.append(len(data))
        super().write(file, data)

    def sync(self, file: int) -> None:
        assert self.gate.wait(PATIENCE_S)
        self.syncs += 1
        super().sync(file)


class FailingFiles(Files):
    """The named operation fails with `error` once armed."""

    def __init__(self, operation: str, error: int) -> None:
        self._operation = operation
        self._error = error
        self.armed = False

    def _maybe_fail(self, operation: str) -> None:
        if self.armed and operation == self._operation:
            raise OSError(self._error, errno.errorcode[self._error])

    def write(self, file: int, data: bytes) -> None:
        if self.armed and self._operation == "write":
            super().write(file, data[: len(data) // 2])
        self._maybe_fail("write")
        super().write(file, data)

    def sync(self, file: int) -> None:
        self._maybe_fail("sync")
        super().sync(file)

    def rename(self, old: Path, new: Path) -> None:
        self._maybe_fail("rename")
        super().rename(old, new)


async def turns_of_the_loop() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def within(awaitable: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE_S):
        return await awaitable


def test_nothing_shows_before_it_is_on_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = GatedFiles()
        store = await LocalStore.open(tmp_path, files=files)
        watch = store.watch("/", 2)
        files.gate.clear()
        put = asyncio.create_task(store.put("/a", b"1"))
        await turns_of_the_loop()
        event = asyncio.ensure_future(anext(watch))
        read = asyncio.create_task(store.get("/a"))
        listed = asyncio.create_task(store.get_prefix("/"))
        refused = asyncio.create_task(store.transact((Compare.missing("/a"),), ()))
        await turns_of_the_loop()
        for waiting in (put, event, read, listed, refused):
            assert not waiting.done()
        files.gate.set()
        assert await within(put) == 2
        assert (await within(read)).kvs == (await within(listed)).kvs != ()
        assert not (await within(refused)).succeeded
        assert (await within(event)).revision == 2
        await store.close()

    asyncio.run(scenario())


def test_concurrent_transactions_share_a_sync(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = GatedFiles()
        store = await LocalStore.open(tmp_path, files=files)
        files.gate.clear()
        syncs_before = files.syncs
        first = asyncio.create_task(store.put("/k", b""))
        await turns_of_the_loop()
        others = [asyncio.create_task(store.put(f"/k/{i}", b"")) for i in range(100)]
        await turns_of_the_loop()
        files.gate.set()
        revisions = await within(asyncio.gather(first, *others))
        assert revisions == list(range(2, 103))
        assert files.syncs - syncs_before == 2
        await store.close()

    asyncio.run(scenario())


def test_cancelled_transaction_does_not_disturb_its_group(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = GatedFiles()
        store = await LocalStore.open(tmp_path, files=files)
        files.gate.clear()
        cancelled = asyncio.create_task(store.put("/a", b""))
        other = asyncio.create_task(store.put("/b", b""))
        await turns_of_the_loop()
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        files.gate.set()
        assert await within(other) == 3
        await store.close()
        assert cancelled.cancelled()

    asyncio.run(scenario())


FULL_AND_FAILING = [
    ("write", errno.ENOSPC),
    ("sync", errno.EIO),
    ("rename", errno.ENOSPC),
]
SOON = LocalStoreLimits(retry_ms=5)


async def until_available(store: LocalStore) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while store.unavailable_reason is not None:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(("operation", "error"), FULL_AND_FAILING[:2])
def test_a_store_whose_disk_failed_comes_back_with_what_it_answered(
    tmp_path: Path, operation: str, error: int
) -> None:
    async def scenario() -> None:
        files = FailingFiles(operation, error)
        store = await LocalStore.open(tmp_path, files=files, limits=SOON)
        watch = store.watch("/", 3)
        await store.put("/safe", b"1")
        files.armed = True
        results = await asyncio.gather(
            store.put("/a", b""), store.put("/b", b""), store.get("/a"), return_exceptions=True
        )
        assert [type(result) for result in results] == [MetadataUnavailable] * 3
        assert errno.errorcode[error] in str(results[0])
        assert errno.errorcode[error] in str(store.unavailable_reason)
        with pytest.raises(MetadataUnavailable):
            await store.put("/c", b"")
        with pytest.raises(MetadataUnavailable):
            await store.get("/safe")
        files.armed = False
        await until_available(store)
        # What was refused did not happen, also not for those who watch.
        assert [kv.key for kv in (await store.get_prefix("")).kvs] == ["/safe"]
        assert await within(store.put("/d", b"")) == 3
        assert [event.kv.key for event in (await within(anext(watch))).events] == ["/d"]
        await store.close()

        reopened = await LocalStore.open(tmp_path)
        assert [kv.key for kv in (await reopened.get_prefix("")).kvs] == ["/d", "/safe"]
        await reopened.close()

    asyncio.run(scenario())


def test_a_full_disk_costs_no_lease(tmp_path: Path) -> None:
    async def scenario() -> None:
        now_ms = 0
        files = FailingFiles("write", errno.ENOSPC)
        store = await LocalStore.open(tmp_path, files=files, limits=SOON, clock_ms=lambda: now_ms)
        lease = await store.grant_lease(10_000)
        await store.put("/mine", b"", lease)
        files.armed = True
        with pytest.raises(MetadataUnavailable):
            await store.put("/more", b"")
        now_ms = 60_000
        with pytest.raises(MetadataUnavailable):
            await store.keep_alive(lease)
        files.armed = False
        await until_available(store)
        await store.expire_leases()
        assert (await store.get("/mine")).one is not None
        now_ms += 9_999
        assert await store.keep_alive(lease) == 10_000
        now_ms += 10_000
        await store.expire_leases()
        assert (await store.get("/mine")).one is None
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(("operation", "error"), FULL_AND_FAILING)
def test_a_store_closes_while_its_disk_fails(tmp_path: Path, operation: str, error: int) -> None:
    async def scenario() -> None:
        files = FailingFiles(operation, error)
        limits = LocalStoreLimits(retry_ms=5, log_max_bytes=200)
        store = await LocalStore.open(tmp_path, files=files, limits=limits)
        watch = store.watch("/never", 3)
        files.armed = True
        number = 0
        while store.unavailable_reason is None:
            with contextlib.suppress(MetadataUnavailable):
                await store.put(f"/{number}", b"x" * 20)
            number += 1
        await store.close()
        with pytest.raises(MetadataUnavailable):
            await within(anext(watch))

    asyncio.run(scenario())


def test_failure_while_rolling_keeps_what_was_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = FailingFiles("rename", errno.EIO)
        store = await LocalStore.open(
            tmp_path, files=files, limits=LocalStoreLimits(log_max_bytes=200)
        )
        files.armed = True
        answered = 0
        try:
            for answered in range(50):
                await store.put(f"/{answered:02}", b"x" * 20)
        except MetadataUnavailable:
            pass
        else:
            pytest.fail("the log was never rolled")
        await store.close()
        reopened = await LocalStore.open(tmp_path)
        keys = [kv.key for kv in (await reopened.get_prefix("")).kvs]
        assert keys[:answered] == [f"/{i:02}" for i in range(answered)]
        await reopened.close()

    asyncio.run(scenario())


def test_open_says_which_directory_failed(tmp_path: Path) -> None:
    files = FailingFiles("sync", errno.EIO)
    files.armed = True
    with pytest.raises(MetadataUnavailable, match=str(tmp_path)):
        asyncio.run(LocalStore.open(tmp_path, files=files))


def test_log_is_rolled_at_its_bound(tmp_path: Path) -> None:
    async def scenario() -> None:
        limits = LocalStoreLimits(log_max_bytes=2_000)
        store = await LocalStore.open(tmp_path, limits=limits)
        lease = await store.grant_lease(60_000)
        await store.put("/leased", b"", lease)
        for i in range(300):
            await store.put(f"/k/{i % 5}", b"%d" % i)
        before = await store.get_prefix("")
        await store.close()
        generation, size_bytes = only_log_in(tmp_path)
        assert generation > 5
        assert size_bytes < 2 * limits.log_max_bytes
        reopened = await LocalStore.open(tmp_path, limits=limits)
        assert await reopened.get_prefix("") == before
        assert await reopened.keep_alive(lease) == 60_000
        await reopened.close()

    asyncio.run(scenario())


def test_rolling_costs_little_however_large_the_state(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = GatedFiles()
        limits = LocalStoreLimits(log_max_bytes=1_000)
        store = await LocalStore.open(tmp_path, files=files, limits=limits)
        await store.transact((), [Put(f"/big/{i}", b"x" * 100) for i in range(2_000)])
        files.written.clear()
        for i in range(200):
            await store.put("/a", b"%d" % i)
        # 200 small entries; a snapshot each 1,000 bytes would have written megabytes.
        assert sum(files.written) < 1_000_000
        await store.close()

    asyncio.run(scenario())


def only_log_in(path: Path) -> tuple[int, int]:
    """Its generation and size in bytes; there is just its snapshot beside it."""
    log, snapshot = sorted(path.iterdir())
    assert snapshot.name.removeprefix("snapshot-") == log.name.removeprefix("log-")
    return int(log.name.removeprefix("log-")), log.stat().st_size


def test_too_large_transaction_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        limits = LocalStoreLimits(transaction_max_bytes=100)
        store = await LocalStore.open(tmp_path, limits=limits)
        with pytest.raises(InvalidRequest, match="the limit is 100"):
            await store.put("/a", b"x" * 100)
        assert await store.get_prefix("") == ((), 1)
        await store.close()

    asyncio.run(scenario())


def test_transactions_wait_when_the_disk_is_far_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = GatedFiles()
        limits = LocalStoreLimits(waiting_max_bytes=500)
        store = await LocalStore.open(tmp_path, files=files, limits=limits)
        files.gate.clear()
        files.written.clear()
        puts = [asyncio.create_task(store.put(f"/{i}", b"x" * 100)) for i in range(50)]
        await turns_of_the_loop()
        files.gate.set()
        await within(asyncio.gather(*puts))
        assert len((await store.get_prefix("")).kvs) == 50
        assert max(files.written) < 1_000
        await store.close()

    asyncio.run(scenario())


def test_lease_runs_out_by_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await LocalStore.open(tmp_path)
        watch = store.watch("/a", 3)
        await store.put("/a", b"", await store.grant_lease(20))
        assert (await within(anext(watch))).changes == (("/a", None, 3),)
        await store.close()

    asyncio.run(scenario())


def test_close_finishes_what_was_begun(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await LocalStore.open(tmp_path)
        puts = [asyncio.create_task(store.put(f"/{i}", b"")) for i in range(10)]
        await asyncio.sleep(0)
        await store.close()
        assert await asyncio.gather(*puts) == list(range(2, 12))
        with pytest.raises(ShuttingDown):
            await store.put("/late", b"")
        with pytest.raises(ShuttingDown):
            store.watch("/", 1)
        reopened = await LocalStore.open(tmp_path)
        assert len((await reopened.get_prefix("")).kvs) == 10
        await reopened.close()

    asyncio.run(scenario())


def test_watch_from_before_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await LocalStore.open(tmp_path)
        await store.put("/a", b"1")
        await store.put("/a", b"2")
        await store.close()
        store = await LocalStore.open(tmp_path)
        watch = store.watch("/", 3)
        assert (await within(anext(watch))).changes == (("/a", b"2", 3),)
        await store.close()

    asyncio.run(scenario())
