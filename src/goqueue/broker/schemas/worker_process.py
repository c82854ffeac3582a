"""A process that looks at schemas, as the broker sees it: started when first needed, replaced when
it dies or takes too long, ended when nothing was asked of it for a while.
"""

import asyncio
import os
import signal
import sys
from typing import Final

from goqueue.broker.schemas.jobs import JOB_ANSWER, READY, SIZE_BYTES, Job, JobAnswer, encode
from goqueue.broker.schemas.spawned_process import SpawnedProcess
from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal
from goqueue.own_package import python_path

# The process and its first library take half a second; on a busy machine, more.
START_SECONDS_MAX: Final = 10.0
# A process holds some 60 MB, which is a pity where schemas are registered once a day.
IDLE_SECONDS: Final = 300.0
# Address space: the libraries of all formats take some 100 MB, schemas tens, and a large payload a
# tenth of the rest.
MEMORY_MAX_BYTES: Final = 512 * 1024 * 1024
# What Python and protoc need of the environment. The rest is the broker's own business: what comes
# from clients is read in this process, and secrets have no place there.
ENVIRONMENT: Final = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONHOME")


class JobTookTooLong(Exception):
    """The process was ended over it."""


class JobEndedProcess(Exception):
    """The process ended twice over it, whoever ended it."""


class WorkerProcess:
    """Who asks waits for the others' turns to end."""

    def __init__(
        self,
        *,
        memory_max_bytes: int = MEMORY_MAX_BYTES,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._memory_max_bytes = memory_max_bytes
        self._idle_seconds = idle_seconds
        self._process: SpawnedProcess | None = None
        self._turn = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self._is_closed = False
        self.starts = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def ask(self, job: Job, seconds_max: float) -> JobAnswer:
        """Raises `JobTookTooLong` and `JobEndedProcess`."""
        message = encode(job)
        async with self._turn:
            self._rest(None)
            try:
                # A time limit needs a task, and who asks may not be in one.
                asking = asyncio.get_running_loop().create_task(self._ask(message, seconds_max))
                return await asking
            finally:
                self._rest(self._idle_seconds)

    async def close(self) -> None:
        self._is_closed = True
        self._rest(None)
        await self._end()
        if self._ending is not None:
            await self._ending

    async def _ask(self, message: bytes, seconds_max: float) -> JobAnswer:
        try:
            # A process that is gone may have been killed for reasons that are not this job.
            for _ in range(2):
                process = await self._running(min(START_SECONDS_MAX, 2 * seconds_max))
                if process is not None:
                    async with asyncio.timeout(seconds_max):
                        answer = await _exchange(process, message)
                    if answer is not None:
                        return answer
                    if await process.wait() == -signal.SIGPROF:
                        raise JobTookTooLong
                await self._end()
        except TimeoutError:
            raise JobTookTooLong from None
        finally:
            # A job that was left has an answer to come, which the next would take for its own.
            if sys.exception() is not None:
                await self._end()
        raise JobEndedProcess

    async def _running(self, seconds_max: float) -> SpawnedProcess | None:
        """None when it is gone before it is ready."""
        if self._is_closed:
            raise RegistryRefusal(RefusalKind.WORKER_FAILED, "the broker is closing")
        if self._process is None or not self._process.is_running:
            await self._end()
            self._process = await self._start()
            self.starts += 1
            async with asyncio.timeout(seconds_max):
                if not await _is_ready(self._process):
                    return None
        return self._process

    async def _start(self) -> SpawnedProcess:
        module = "goqueue.broker.schemas.process"
        numbers = os.getpid(), self._memory_max_bytes
        command = [sys.executable, "-P", "-m", module, *map(str, numbers)]
        try:
            return await SpawnedProcess.start(command, _environment())
        except OSError as error:
            raise RegistryRefusal(
                RefusalKind.WORKER_FAILED,
                f"no process could be started to look at the schema: {error}",
            ) from None

    def _rest(self, seconds: float | None) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if seconds is not None and not self._is_closed:
            self._idle = asyncio.get_running_loop().call_later(seconds, self._end_soon)

    def _end_soon(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            self._ending = asyncio.get_running_loop().create_task(_end(process))

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await _end(process)


async def _end(process: SpawnedProcess) -> None:
    process.kill()
    await process.wait()


async def _is_ready(process: SpawnedProcess) -> bool:
    try:
        return await process.reader.readexactly(len(READY)) == READY
    except (OSError, asyncio.IncompleteReadError):
        return False


async def _exchange(process: SpawnedProcess, message: bytes) -> JobAnswer | None:
    """None when the process is gone before it has answered."""
    try:
        process.writer.write(len(message).to_bytes(SIZE_BYTES, "big"))
        process.writer.write(message)
        await process.writer.drain()
        size = int.from_bytes(await process.reader.readexactly(SIZE_BYTES), "big")
        return JOB_ANSWER.decode(await process.reader.readexactly(size))
    except (OSError, asyncio.IncompleteReadError):
        return None


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    return {**kept, "PYTHONPATH": python_path()}
