"""The request at hand: who makes it, and how the client called us."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from goqueue.model.caller import Caller


@dataclass(frozen=True, slots=True)
class Call:
    """`host` is what the client called us by, `region` what it signed for.

    `gone` returns when nobody waits for the answer any more: the client hung up, or the door
    closes, which `closing` tells. `trace` is what the client's tracing asks to be passed on with
    messages (X-Amzn-Trace-Id), or empty.
    """

    caller: Caller
    host: str
    region: str
    gone: Callable[[], Awaitable[None]]
    closing: asyncio.Event
    trace: str = ""
    scheme: str = "http"
