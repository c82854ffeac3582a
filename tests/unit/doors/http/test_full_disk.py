"""A disk without space: what cannot be done is refused with the reason, and works again later."""

import asyncio
import errno
from collections.abc import Awaitable, Callable

import httpx
import pytest

from goqueue.metadata.files import Files
from goqueue.storage.disk import Disk

PATIENCE_S = 30.0


class _FullDisk:
    """Makes every write in this process fail while `is_full`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        write, pwrite = Files.write, Disk.pwrite

        def full_write(files: Files, file: int, data: bytes) -> None:
            self._check()
            write(files, file, data)

        def full_pwrite(disk: Disk, fd: int, data: bytes, position: int) -> int:
            self._check()
            return pwrite(disk, fd, data, position)

        monkeypatch.setattr(Files, "write", full_write)
        monkeypatch.setattr(Disk, "pwrite", full_pwrite)

    def _check(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> _FullDisk:
    return _FullDisk(monkeypatch)


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            await asyncio.sleep(0.05)


async def _create(client: httpx.AsyncClient, name: str) -> httpx.Response:
    return await client.post("/topics", json={"name": name, "partitions": 2})


@pytest.mark.anyio
async def test_metadata_comes_back_and_readiness_says_what_is_missing(
    client: httpx.AsyncClient, full: _FullDisk
) -> None:
    assert (await client.get("/readyz")).status_code == 200
    full.is_full = True
    refused = await _create(client, "late")
    assert refused.status_code == 503
    assert "No space left" in refused.json()["error"]["message"]
    unready = await client.get("/readyz")
    assert unready.status_code == 503
    assert "No space left" in unready.json()["error"]["message"]
    full.is_full = False

    async def is_ready() -> bool:
        return (await client.get("/readyz")).status_code == 200

    await _until(is_ready)
    assert (await client.get("/topics/late")).status_code == 404
    assert (await _create(client, "late")).status_code == 201
    sent = await client.post("/topics/late/messages", json={"messages": [{"value": "x"}]})
    assert sent.status_code == 200, sent.text


@pytest.mark.anyio
async def test_a_topic_whose_files_found_no_space_is_there_once_there_is(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite, is_full = Disk.pwrite, True

    def full_pwrite(disk: Disk, fd: int, data: bytes, position: int) -> int:
        if is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(disk, fd, data, position)

    monkeypatch.setattr(Disk, "pwrite", full_pwrite)
    assert (await _create(client, "t")).status_code == 201
    message = {"messages": [{"value": "x"}]}
    refused = await client.post("/topics/t/messages", json=message)
    assert refused.status_code == 503
    assert "No space left" in refused.text
    readiness = (await client.get("/readyz")).json()
    assert readiness["offlinePartitionCount"] == 2
    assert "No space left" in readiness["offlinePartitions"][0]["reason"]
    is_full = False

    async def is_online() -> bool:
        return bool((await client.get("/readyz")).json()["offlinePartitionCount"] == 0)

    await _until(is_online)
    assert (await client.post("/topics/t/messages", json=message)).status_code == 200
