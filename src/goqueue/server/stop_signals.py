"""SIGTERM and Ctrl-C: the first asks for a stop in order, the second for one at once. SIGHUP: files
have changed."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def end_at_once(number: signal.Signals) -> None:
    """What was acknowledged is safe; the next start recovers as after a crash."""
    os._exit(128 + number)


def on_stop_signals(
    stop_requested: asyncio.Event, *, again: Callable[[signal.Signals], None] = end_at_once
) -> None:
    """On the running event loop. `again`: somebody does not want to wait."""

    def requested(number: signal.Signals) -> None:
        if stop_requested.is_set():
            again(number)
        stop_requested.set()

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, requested, number)


def on_hang_up(reload: Callable[[], None]) -> None:
    """On the running event loop, in place of ending the process."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
