"""Processes that are started beside the loop, and end with what they were started for."""

import asyncio
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from goqueue.broker.schemas.jobs import CheckJob
from goqueue.broker.schemas.spawned_process import SpawnedProcess
from goqueue.broker.schemas.worker_process import WorkerProcess

pytestmark = pytest.mark.anyio

# Of a schema that the process does not have: the quickest there is.
JOB = CheckJob(key="none", payload=b"", cpu_seconds_max=1.0)
ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.readline()); sys.stdout.flush()"


async def test_what_is_written_and_said_passes() -> None:
    process = await SpawnedProcess.start([sys.executable, "-c", ECHO], {})
    process.writer.write(b"said\n")
    assert await process.reader.readline() == b"said\n"
    assert await process.reader.read() == b""
    assert await process.wait() == 0
    assert not process.is_running


async def test_a_process_that_is_killed_says_so() -> None:
    process = await SpawnedProcess.start([sys.executable, "-c", "input()"], {})
    assert process.is_running
    process.kill()
    assert await process.wait() == -signal.SIGKILL


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(OSError, match="no-such-program"):
        await SpawnedProcess.start(["/no-such-program"], {})


async def test_the_loop_does_not_start_it_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting one took 106 ms of a turn."""
    threads: list[int] = []
    start = subprocess.Popen

    def started(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return start(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", started)
    worker = WorkerProcess(memory_max_bytes=1024 * 1024 * 1024)
    try:
        await worker.ask(JOB, 30)
    finally:
        await worker.close()
    assert threads
    assert threading.get_ident() not in threads


async def test_an_idle_process_is_gone_and_the_next_job_has_another() -> None:
    worker = WorkerProcess(memory_max_bytes=1024 * 1024 * 1024, idle_seconds=0)
    try:
        for starts in (1, 2):
            await worker.ask(JOB, 30)
            assert worker.starts == starts
            while worker.pid is not None:
                await asyncio.sleep(0)
    finally:
        await worker.close()
