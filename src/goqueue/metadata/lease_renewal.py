"""Keeps a lease alive from the event loop: enough for a store that lives on the same loop."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from goqueue.model.errors import LeaseNotFound, MetadataUnavailable, ShuttingDown

logger = logging.getLogger(__name__)

# Two renewals may get lost before a lease of three parts runs out.
RENEWALS_A_LEASE: Final = 3


class LeaseRenewal:
    """`on_lost` is called once, when the lease is gone for good."""

    def __init__(
        self, renew: Callable[[], Awaitable[int]], ttl_ms: int, on_lost: Callable[[], None]
    ) -> None:
        self._renew = renew
        self._renew_s = ttl_ms / 1_000 / RENEWALS_A_LEASE
        self._on_lost = on_lost
        self.renewed_at_s = time.monotonic()
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._renew_s)
            try:
                await self._renew()
                self.renewed_at_s = time.monotonic()
            except LeaseNotFound:
                self._on_lost()
                return
            except ShuttingDown:
                return
            except MetadataUnavailable as error:
                logger.warning("the lease could not be renewed: %s", error)
