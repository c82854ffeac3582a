"""Requests over HTTP are held to their callers' shares of the event loop, in whatever protocol."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from goqueue.doors.loop_time import timed
from goqueue.model.caller import Caller
from goqueue.service.security.quotas import QuotaService

T = TypeVar("T")


async def measured(quotas: QuotaService, caller: Caller, work: Callable[[], Awaitable[T]]) -> T:
    """What `work` answers; `QuotaExceeded` for a caller that has had too much of the loop."""
    if not quotas.admit(caller):
        return await work()
    return await timed(work(), partial(quotas.spent, caller))
