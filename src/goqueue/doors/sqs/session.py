"""What the actions work with: the broker, the door's own memory, and the request at hand."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from goqueue.model.caller import Caller
from goqueue.service.broker_service import BrokerService


@dataclass(frozen=True, slots=True)
class Call:
    """`host` is what the client called us by, `region` what it signed for.

    `gone` returns when nobody waits for the answer any more: the client hung up, or the door
    closes.
    """

    caller: Caller
    host: str
    region: str
    gone: Callable[[], Awaitable[None]]


class Session:
    """One per door."""

    def __init__(self, service: BrokerService) -> None:
        self.service = service
        self.broker = service.node
        self.closing = asyncio.Event()
