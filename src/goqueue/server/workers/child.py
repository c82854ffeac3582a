"""One run of a worker's process, as the supervisor sees it."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from typing import Final, Self

import msgspec

from goqueue.metadata.over_socket import serve_store
from goqueue.metadata.store import MetadataStore
from goqueue.own_package import python_path
from goqueue.server.workers.orders import Order, Report

logger = logging.getLogger(__name__)

# What Python runs as a worker.
PROGRAM: Final = ("-P", "-m", "goqueue.server.workers")
# The line of a report names what is wrong, such as paths and settings.
_REPORT_MAX_BYTES: Final = 64 * 1024


class Child:
    """From its start until `ended` returns."""

    def __init__(self, worker: int, process: Process, serving: "asyncio.Task[None]") -> None:
        self._worker = worker
        self._process = process
        self._serving = serving
        self._ready_at_s: float | None = None

    @classmethod
    async def start(
        cls, worker: int, settings: Mapping[str, str], store: MetadataStore, lock: int
    ) -> Self:
        """`lock` is held by the process for as long as it lives. Raises `OSError`."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *(*PROGRAM, str(theirs.fileno())),
                    stdin=PIPE,
                    stdout=PIPE,
                    env={**os.environ, "PYTHONPATH": python_path()},
                    pass_fds=(theirs.fileno(), lock),
                    limit=_REPORT_MAX_BYTES,
                    # Ctrl-C in a terminal is for the supervisor, which tells its workers.
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        name = f"worker {worker}"
        serving = asyncio.create_task(serve_store(store, ours, name=name), name=f"store of {name}")
        child = cls(worker, process, serving)
        await child._order(Order(worker, dict(settings)))
        return child

    async def _order(self, order: Order) -> None:
        assert self._process.stdin is not None
        # It may be gone already, which is noticed where it is waited for.
        with contextlib.suppress(OSError):
            self._process.stdin.write(msgspec.json.encode(order))
            await self._process.stdin.drain()
        self._process.stdin.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def served_s(self) -> float:
        """Since it was ready; 0 if it never was."""
        return 0.0 if self._ready_at_s is None else time.monotonic() - self._ready_at_s

    async def report(self) -> Report | None:
        """That it is ready, or why not. None where it ended without a word."""
        assert self._process.stdout is not None
        try:
            line = await self._process.stdout.readline()
            told = msgspec.json.decode(line, type=Report) if line else None
        except (ValueError, msgspec.MsgspecError) as error:
            logger.error("worker %d said what is no report: %s", self._worker, error)
            return None
        if told is not None and not told.problem:
            self._ready_at_s = time.monotonic()
        return told

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def ended(self) -> str:
        """How, in words, when it has."""
        code = await self._process.wait()
        self._serving.cancel()
        await asyncio.gather(self._serving, return_exceptions=True)
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with code {code}"
