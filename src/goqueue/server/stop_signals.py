"""SIGTERM and Ctrl-C: the first asks for a stop in order, the second for one at once."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def on_stop_signals(
    stop_requested: asyncio.Event, *, at_once: Callable[[], None] = lambda: None
) -> None:
    """On the running event loop. `at_once` is called before the process ends at the second."""

    def requested(number: signal.Signals) -> None:
        if stop_requested.is_set():
            # The second signal: somebody does not want to wait. What was acknowledged is safe,
            # the next start recovers as after a crash.
            at_once()
            os._exit(128 + number)
        stop_requested.set()

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, requested, number)
