"""Checks of payloads that may take long, in a process of their own.

There a check may use some processor time and some memory, and no more: then the process ends, the
payload is refused, and the next check has a new process. Those who wait come one payload at a time,
so that nobody's batch holds up the others by more than that.
"""

from typing import Final

from goqueue.broker.schemas.jobs import (
    Broken,
    Checked,
    CheckJob,
    Job,
    JobAnswer,
    LoadJob,
    NotLoaded,
    Refused,
)
from goqueue.broker.schemas.worker_process import (
    MEMORY_MAX_BYTES,
    JobEndedProcess,
    JobTookTooLong,
    WorkerProcess,
)
from goqueue.model.errors import Overloaded
from goqueue.schema_formats import InvalidContent, SchemaSource

# Processor time is what counts. This is for a machine that is busy, or a process that was stopped.
SECONDS_PER_CPU_SECOND: Final = 20
# Compiling a schema for the first time. The registry has compiled it before, within its limits.
LOAD_SECONDS_MAX: Final = 10.0
# Requests that wait; each has one payload here.
WAITING_MAX: Final = 256


class CheckBudget:
    """Processor time that the messages of one request may take here together."""

    def __init__(self, cpu_ms: int) -> None:
        self.cpu_ms = cpu_ms
        self.cpu_ms_left: float = cpu_ms


class ContentChecker:
    """Owned by the broker."""

    def __init__(self, *, cpu_ms_max: int) -> None:
        self._cpu_ms_max = cpu_ms_max
        self._process = WorkerProcess()
        self._waiting = 0

    @property
    def pid(self) -> int | None:
        return self._process.pid

    async def check(
        self, key: str, source: SchemaSource, payload: bytes, budget: CheckBudget
    ) -> None:
        """Raises `InvalidContent`; `key` stands for the schema."""
        if budget.cpu_ms_left <= 0:
            raise InvalidContent(
                f"the checks of this request's messages took more than {budget.cpu_ms} ms of "
                "processor time, which schema.validation.request.cpu.ms allows; send fewer, or "
                "make the schema simpler"
            )
        if self._waiting >= WAITING_MAX:
            raise Overloaded(f"{WAITING_MAX} messages wait to be held against schemas; try again")
        self._waiting += 1
        try:
            answer = await self._check(key, source, payload)
        except JobTookTooLong:
            budget.cpu_ms_left -= self._cpu_ms_max
            raise InvalidContent(
                f"the check took more than {self._cpu_ms_max} ms of processor time, which "
                "schema.validation.cpu.ms allows; make the schema simpler"
            ) from None
        except JobEndedProcess:
            raise InvalidContent(
                f"the check took more than {MEMORY_MAX_BYTES} bytes of memory; make the schema "
                "simpler"
            ) from None
        finally:
            self._waiting -= 1
        if isinstance(answer, Refused | Broken):
            raise InvalidContent(f"it cannot be checked: {answer.reason}")
        assert isinstance(answer, Checked)
        budget.cpu_ms_left -= answer.cpu_ms
        if answer.reason is not None:
            raise InvalidContent(answer.reason)

    async def close(self) -> None:
        await self._process.close()

    async def _check(self, key: str, source: SchemaSource, payload: bytes) -> JobAnswer:
        cpu_seconds = self._cpu_ms_max / 1000
        job: Job = CheckJob(key, payload, cpu_seconds)
        seconds = cpu_seconds * SECONDS_PER_CPU_SECOND
        answer = await self._process.ask(job, seconds)
        if isinstance(answer, NotLoaded):
            answer = await self._process.ask(LoadJob(key, source), LOAD_SECONDS_MAX)
            if not isinstance(answer, Refused | Broken):
                answer = await self._process.ask(job, seconds)
        if isinstance(answer, NotLoaded):
            raise Overloaded("too many schemas are in use for checks; try again")
        return answer
