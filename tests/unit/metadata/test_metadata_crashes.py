"""The store stopped after every single file operation, with and without loss of power."""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from goqueue.metadata import LocalStore, LocalStoreLimits, Put
from goqueue.metadata.files import Files
from goqueue.model.errors import MetadataUnavailable

DIRECTORY = Path("/simulated")
TINY = LocalStoreLimits(log_max_bytes=150)


class PowerCut(OSError):
    pass


@dataclass
class SimulatedFile:
    data: bytes = b""
    durable: bytes = b""


class SimulatedFiles(Files):
    """Files in memory that know what a disk would keep: synced bytes under synced names.

    Stops for good after `operations_left` changes; a write that stops is torn.
    """

    def __init__(self, operations_left: int = 10**9) -> None:
        self.operations_left = operations_left
        self._names: dict[str, SimulatedFile] = {}
        self._durable_names: dict[str, SimulatedFile] = {}
        self._open: dict[int, SimulatedFile] = {}

    def after_power_cut(self) -> "SimulatedFiles":
        """Only what was synced."""
        return self._restarted({n: file.durable for n, file in self._durable_names.items()})

    def after_kill(self) -> "SimulatedFiles":
        """Everything that was written, as a killed process leaves it."""
        return self._restarted({n: file.data for n, file in self._names.items()})

    def _restarted(self, contents: dict[str, bytes]) -> "SimulatedFiles":
        files = SimulatedFiles()
        files._names = {name: SimulatedFile(data, data) for name, data in contents.items()}
        files._durable_names = dict(files._names)
        return files

    def _step(self) -> None:
        if self.operations_left <= 0:
            raise PowerCut("stopped")
        self.operations_left -= 1

    def make_directory(self, path: Path) -> None:
        pass

    def names(self, directory: Path) -> list[str]:
        return sorted(self._names)

    def read(self, path: Path) -> bytes:
        return self._names[path.name].data

    def create(self, path: Path) -> int:
        self._step()
        self._names[path.name] = SimulatedFile()
        return self.open_to_append(path)

    def open_to_append(self, path: Path) -> int:
        number = len(self._open)
        self._open[number] = self._names[path.name]
        return number

    def write(self, file: int, data: bytes) -> None:
        if self.operations_left <= 0:
            self._open[file].data += data[: len(data) // 2]
        self._step()
        self._open[file].data += data

    def sync(self, file: int) -> None:
        self._step()
        self._open[file].durable = self._open[file].data

    def sync_directory(self, path: Path) -> None:
        self._step()
        self._durable_names = dict(self._names)

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        self._names[new.name] = self._names.pop(old.name)

    def remove(self, path: Path) -> None:
        self._step()
        del self._names[path.name]

    def close(self, file: int) -> None:
        pass


async def write_until_stopped(files: SimulatedFiles) -> tuple[int, bool]:
    """How many puts were answered, and whether all steps went through."""
    answered = 0
    try:
        store = await LocalStore.open(DIRECTORY, files=files, limits=TINY)
        try:
            for i in range(8):
                await store.transact((), (Put("/latest", b"%d" % i), Put(f"/{i}", b"x" * 20)))
                answered = i + 1
        finally:
            await store.close()
        store = await LocalStore.open(DIRECTORY, files=files, limits=TINY)
        await store.put("/second", b"")
        answered += 1
        await store.close()
    except MetadataUnavailable:
        return answered, False
    return answered, True


async def stored(files: SimulatedFiles) -> tuple[int, list[str]]:
    store = await LocalStore.open(DIRECTORY, files=files, limits=TINY)
    found = await store.get_prefix("/")
    await store.put("/writable", b"")
    await store.close()
    again = await LocalStore.open(DIRECTORY, files=files, limits=TINY)
    assert (await again.get("/writable")).kvs
    await again.close()
    return found.revision - 1, [kv.key for kv in found.kvs]


def keys_after(puts: int) -> list[str]:
    if puts == 0:
        return []
    first_eight = [f"/{i}" for i in range(min(puts, 8))]
    return sorted([*first_eight, "/latest", *(["/second"] if puts == 9 else [])])


def test_stopped_after_every_operation() -> None:
    async def scenario() -> int:
        for operations in range(1_000):
            files = SimulatedFiles(operations)
            answered, finished = await write_until_stopped(files)
            for restarted in (files.after_power_cut(), files.after_kill()):
                puts, keys = await stored(restarted)
                assert puts in (answered, answered + 1), operations
                assert keys == keys_after(puts), operations
            if finished:
                return operations
        raise AssertionError("the steps never came to an end")

    # Several generations, or the interesting places were not among the stops.
    assert asyncio.run(scenario()) > 60


WRITER = """
import asyncio, sys
from pathlib import Path
from goqueue.metadata import LocalStore, LocalStoreLimits

async def one(store, worker):
    while True:
        print(worker, await store.put(f"/{worker}", b""), flush=True)

async def main():
    limits = LocalStoreLimits(log_max_bytes=5_000)
    store = await LocalStore.open(Path(sys.argv[1]), limits=limits)
    await asyncio.gather(*(one(store, worker) for worker in range(4)))

asyncio.run(main())
"""


@pytest.mark.parametrize("answers_before_kill", [1, 40, 333])
def test_killed_process_loses_no_answer(tmp_path: Path, answers_before_kill: int) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    answered: dict[str, int] = {}
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        ) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(answers_before_kill)]
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
        whole = (line.split() for line in lines if line.endswith("\n"))
        answered |= {f"/{worker}": int(revision) for worker, revision in whole}
        found = asyncio.run(revisions_in(tmp_path))
        assert answered
        assert all(found[key] >= revision for key, revision in answered.items())


async def revisions_in(path: Path) -> dict[str, int]:
    store = await LocalStore.open(path)
    found = {kv.key: kv.mod_revision for kv in (await store.get_prefix("/")).kvs}
    await store.close()
    return found
