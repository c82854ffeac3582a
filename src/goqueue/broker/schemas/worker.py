"""The registry's work on schemas, done by processes of its own in two lanes.

Every job begins in the quick lane, where real schemas take milliseconds. What takes longer is ended
there and begins again in the slow lane: a few schemas that are made to be slow wait for each other,
and the others pass them. In the quick lane, those who ask take turns.
"""

import asyncio
import logging
from typing import Final, TypeVar

from goqueue.broker.fair_turns import FairTurns
from goqueue.broker.schemas.jobs import Broken, Job, JobAnswer, Refused
from goqueue.broker.schemas.worker_process import (
    IDLE_SECONDS,
    JobEndedProcess,
    JobTookTooLong,
    WorkerProcess,
)
from goqueue.model.errors import Overloaded
from goqueue.model.schemas.errors import invalid_schema

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

# The largest schemas take a second or two.
JOB_SECONDS_MAX: Final = 10.0
# Real schemas take milliseconds, and the library that a format needs a tenth of a second once.
QUICK_SECONDS: Final = 0.5
# Jobs of one asker that wait for their turn. At a millisecond each, the last waits for a second.
WAITING_MAX: Final = 1_024
WAITING_IN_ALL_MAX: Final = 8_192
# The last of these waits for a minute and a half.
SLOW_WAITING_MAX: Final = 8
# Few schemas need the slow lane, and its process is as large as the other one.
SLOW_IDLE_SECONDS: Final = 5.0


class SchemaWorker:
    def __init__(
        self, *, job_seconds_max: float = JOB_SECONDS_MAX, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._job_seconds_max = job_seconds_max
        self._quick = WorkerProcess(idle_seconds=idle_seconds)
        self._slow = WorkerProcess(idle_seconds=min(idle_seconds, SLOW_IDLE_SECONDS))
        self._turns = FairTurns()
        self._waiting = 0
        self._waiting_slow = 0

    @property
    def pid(self) -> int | None:
        return self._quick.pid

    @property
    def starts(self) -> int:
        return self._quick.starts + self._slow.starts

    async def run(self, job: Job, expected: type[Answer], *, asker: str = "") -> Answer:
        """The job's answer; raises `RegistryRefusal` when the schema or the worker is to blame."""
        try:
            answer = await self._ask(job, asker)
        except JobTookTooLong:
            raise invalid_schema(
                f"looking at the schema took longer than {self._job_seconds_max:g} s; make it "
                "simpler, or split it into several with references"
            ) from None
        except JobEndedProcess:
            raise invalid_schema(
                "the process that looks at schemas ended twice over this one; make it simpler"
            ) from None
        if isinstance(answer, Refused):
            raise invalid_schema(answer.reason)
        if isinstance(answer, Broken):
            logger.error("a schema could not be looked at: %s", answer.reason)
            raise invalid_schema(f"the schema could not be read: {answer.reason}")
        assert isinstance(answer, expected)
        return answer

    async def close(self) -> None:
        await asyncio.gather(self._quick.close(), self._slow.close())

    async def _ask(self, job: Job, asker: str) -> JobAnswer:
        # One of them has the turn, the others wait.
        if self._turns.waiting(asker) >= WAITING_MAX - 1 or self._waiting >= WAITING_IN_ALL_MAX:
            raise Overloaded(f"{WAITING_MAX} schemas wait to be looked at; try again in a second")
        self._waiting += 1
        try:
            async with self._turns.turn(asker):
                return await self._quick.ask(job, min(QUICK_SECONDS, self._job_seconds_max))
        except JobTookTooLong:
            if self._job_seconds_max <= QUICK_SECONDS:
                raise
        finally:
            self._waiting -= 1
        return await self._ask_slow(job)

    async def _ask_slow(self, job: Job) -> JobAnswer:
        if self._waiting_slow >= SLOW_WAITING_MAX:
            raise Overloaded(
                f"{SLOW_WAITING_MAX} schemas that take longer than {QUICK_SECONDS:g} s wait to be "
                "looked at; try again in a minute"
            )
        self._waiting_slow += 1
        try:
            return await self._slow.ask(job, self._job_seconds_max)
        finally:
            self._waiting_slow -= 1
