"""The temporary files of the suite are kept in memory where there is room: brokers, etcd and the
tests write thousands of small files and wait for each of them, and no test needs them to last."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_MEMORY = Path("/dev/shm")
_PREFIX = "goqueue-tests-"
# Several times what four processes hold at once. Containers have 64 MB there by default.
_ROOM_BYTES = 4 << 30
# What is in there is in memory, beside Spark, brokers and clients.
_MEMORY_BYTES = 2 * _ROOM_BYTES


@contextlib.contextmanager
def temporary_files_in_memory() -> Iterator[None]:
    """For this process and those that it starts; without room, or if somebody has chosen a folder
    already, they stay where they are."""
    folder = None if "TMPDIR" in os.environ or not _has_room() else _new_folder()
    if folder is None:
        yield
        return
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        del os.environ["TMPDIR"]
        tempfile.tempdir = None
        shutil.rmtree(folder, ignore_errors=True)


def _has_room() -> bool:
    try:
        free = shutil.disk_usage(_MEMORY).free
        told = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return False
    [available] = (int(line.split()[1]) << 10 for line in told if line.startswith("MemAvailable:"))
    return free >= _ROOM_BYTES and available >= _MEMORY_BYTES


def _new_folder() -> Path | None:
    """Its name has the process whose it is: the next one removes what a killed one has left."""
    for left in _MEMORY.glob(f"{_PREFIX}*"):
        if not Path("/proc", left.name.removeprefix(_PREFIX)).exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = _MEMORY / f"{_PREFIX}{os.getpid()}"
    try:
        folder.mkdir(mode=0o700)
    except OSError:
        return None
    return folder
