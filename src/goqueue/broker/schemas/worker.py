"""The registry's worker process, as the broker sees it: started when first needed, replaced when
it dies or takes too long, ended when nothing was asked of it for a while.
"""

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Final, TypeVar

import goqueue
from goqueue.broker.schemas.jobs import (
    JOB_ANSWER,
    SIZE_BYTES,
    Broken,
    Job,
    JobAnswer,
    Refused,
    encode,
)
from goqueue.model.errors import Overloaded
from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal, invalid_schema

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

# Real schemas take milliseconds; the start of the process and of its libraries, a second.
JOB_SECONDS_MAX: Final = 10.0
# Jobs that wait for their turn. At a millisecond each, the last one waits for a second.
WAITING_MAX: Final = 1_024
# A worker holds some 60 MB, which is a pity where schemas are registered once a day.
IDLE_SECONDS: Final = 300.0


class SchemaWorker:
    def __init__(
        self, *, job_seconds_max: float = JOB_SECONDS_MAX, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._job_seconds_max = job_seconds_max
        self._idle_seconds = idle_seconds
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._idle: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.starts = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def run(self, job: Job, expected: type[Answer]) -> Answer:
        """The job's answer; raises `RegistryRefusal` when the schema or the worker is to blame."""
        if self._waiting >= WAITING_MAX:
            raise Overloaded(f"{WAITING_MAX} schemas wait to be looked at; try again in a second")
        self._waiting += 1
        try:
            async with self._turn:
                self._rest(None)
                try:
                    # A time limit needs a task, and who asks may not be in one.
                    asking = asyncio.get_running_loop().create_task(self._ask(encode(job)))
                    answer = await asking
                finally:
                    self._rest(self._idle_seconds)
        finally:
            self._waiting -= 1
        if isinstance(answer, Refused):
            raise invalid_schema(answer.reason)
        if isinstance(answer, Broken):
            logger.error("a schema could not be looked at: %s", answer.reason)
            raise invalid_schema(f"the schema could not be read: {answer.reason}")
        assert isinstance(answer, expected)
        return answer

    async def close(self) -> None:
        self._is_closed = True
        self._rest(None)
        await self._end()

    async def _ask(self, message: bytes) -> JobAnswer:
        try:
            async with asyncio.timeout(self._job_seconds_max):
                # A worker that is gone may have been killed for reasons that are not this job.
                for _ in range(2):
                    answer = await self._exchange(message)
                    if answer is not None:
                        return answer
                    await self._end()
        except TimeoutError:
            await self._end()
            raise invalid_schema(
                f"looking at the schema took longer than {self._job_seconds_max:g} s; make it "
                "simpler, or split it into several with references"
            ) from None
        except asyncio.CancelledError:
            # The answer would be taken for that of the next job.
            await self._end()
            raise
        raise invalid_schema(
            "the process that looks at schemas ended twice over this one; make it simpler"
        )

    async def _exchange(self, message: bytes) -> JobAnswer | None:
        """None when the process is gone before it has answered."""
        process = await self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(len(message).to_bytes(SIZE_BYTES, "big"))
            process.stdin.write(message)
            await process.stdin.drain()
            size = int.from_bytes(await process.stdout.readexactly(SIZE_BYTES), "big")
            return JOB_ANSWER.decode(await process.stdout.readexactly(size))
        except (OSError, asyncio.IncompleteReadError):
            return None

    async def _running(self) -> asyncio.subprocess.Process:
        if self._is_closed:
            raise RegistryRefusal(RefusalKind.WORKER_FAILED, "the broker is closing")
        if self._process is None or self._process.returncode is not None:
            self._process = await self._start()
            self.starts += 1
        return self._process

    async def _start(self) -> asyncio.subprocess.Process:
        # The worker must find the same package as this process, wherever that was started.
        package = str(Path(goqueue.__file__).parent.parent)
        known = os.environ.get("PYTHONPATH")
        path = package if not known else os.pathsep.join((package, known))
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "goqueue.broker.schemas.process",
                str(os.getpid()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
            )
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
            self._idle = asyncio.get_running_loop().call_later(seconds, self._kill)

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
