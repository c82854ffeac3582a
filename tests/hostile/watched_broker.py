"""`goqueue serve` with a watch over its event loop: its longest turns, and what ran in them.

A turn is everything between two looks at the sockets, so no single step is longer than the longest
turn. Each is measured by the clock on the wall, and by the processor time of the loop's thread: on
a busy machine the first also counts the time in which other processes ran.

    python -m tests.hostile.watched_broker serve …

Of several workers, each watches its own loop (`… watched_broker DESCRIPTOR`), and has a report of
its own.
"""

import asyncio
import gc
import heapq
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, Final

from goqueue.cli.entry import main

REPORT_VARIABLE: Final = "LOOP_REPORT"
# Turns are told apart by a timer that is due in each of them: shorter ones cost nobody anything.
BEAT_SECONDS: Final = 0.005
# From here on it is looked up what runs.
LONG_SECONDS: Final = 0.05
KEPT_TURNS: Final = 20
STACK_DEPTH: Final = 14
WRITE_EVERY_SECONDS: Final = 0.25


class LoopWatch:
    def __init__(self) -> None:
        self._loop_thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._last = time.perf_counter(), time.thread_time()
        self._stack: list[str] = []
        self._longest: dict[str, list[tuple[float, int, dict[str, Any]]]] = {"cpu": [], "wall": []}
        self._turns = 0
        self._over: dict[str, int] = {"cpu_50ms": 0, "cpu_100ms": 0, "wall_100ms": 0}
        self._collector_began = 0.0
        self._collector_seconds = 0.0
        gc.callbacks.append(self._collecting)
        self._loop.call_later(BEAT_SECONDS, self._beat)
        threading.Thread(target=self._look_and_write, daemon=True).start()

    def _beat(self) -> None:
        now = time.perf_counter(), time.thread_time()
        wall = now[0] - self._last[0] - BEAT_SECONDS
        cpu = now[1] - self._last[1]
        self._last = now
        self._turns += 1
        self._over["cpu_50ms"] += cpu > 0.05
        self._over["cpu_100ms"] += cpu > 0.1
        self._over["wall_100ms"] += wall > 0.1
        if max(wall, cpu) > LONG_SECONDS / 2:
            stack, self._stack = self._stack, []
            turn = {
                "wall_ms": round(wall * 1000, 1),
                "cpu_ms": round(cpu * 1000, 1),
                "collector_ms": round(self._collector_seconds * 1000, 1),
                "at": time.time(),
                "stack": stack,
            }
            for name, length in (("cpu", cpu), ("wall", wall)):
                heapq.heappush(self._longest[name], (length, self._turns, turn))
                if len(self._longest[name]) > KEPT_TURNS:
                    heapq.heappop(self._longest[name])
        self._collector_seconds = 0.0
        self._loop.call_later(BEAT_SECONDS, self._beat)

    def _collecting(self, phase: str, _: dict[str, int]) -> None:
        if threading.get_ident() != self._loop_thread:
            return
        if phase == "start":
            self._collector_began = time.perf_counter()
        else:
            self._collector_seconds += time.perf_counter() - self._collector_began

    def _look_and_write(self) -> None:
        path = Path(f"{os.environ[REPORT_VARIABLE]}.{os.getpid()}")
        written = 0.0
        while True:
            time.sleep(LONG_SECONDS / 4)
            now = time.perf_counter()
            if now - self._last[0] > LONG_SECONDS and len(self._stack) < 3:
                self._stack = [*self._stack, _told(sys._current_frames().get(self._loop_thread))]
            if now - written > WRITE_EVERY_SECONDS:
                written = now
                unfinished = path.with_name(f"unfinished-{path.name}")
                unfinished.write_text(json.dumps(self._report()))
                unfinished.rename(path)

    def _report(self) -> dict[str, Any]:
        turns = {
            name: [turn for _, _, turn in sorted(kept, reverse=True)]
            for name, kept in self._longest.items()
        }
        return {"turns": self._turns, "over": self._over, "longest": turns}


def _told(frame: FrameType | None) -> str:
    """Innermost first; the loop goes on while it is looked at."""
    told: list[str] = []
    while frame is not None and len(told) < STACK_DEPTH:
        told.append(
            f"{Path(frame.f_code.co_filename).stem}:{frame.f_lineno} {frame.f_code.co_name}"
        )
        frame = frame.f_back
    return " < ".join(told)


def _watch_the_loop() -> None:
    from goqueue.server import process
    from goqueue.server.ready_report import report_ready
    from goqueue.server.workers import child

    def watched(*arguments: Any) -> None:
        LoopWatch()
        report_ready(*arguments)

    setattr(process, "report_ready", watched)  # noqa: B010
    setattr(child, "PROGRAM", ("-m", "tests.hostile.watched_broker"))  # noqa: B010


def _watched_worker(descriptor: int) -> int:
    from goqueue.server.process import run_broker
    from goqueue.server.workers import worker

    async def watched(server: Any, stop_requested: Any, is_ready: Any) -> None:
        def ready(addresses: Any) -> None:
            LoopWatch()
            is_ready(addresses)

        await run_broker(server, stop_requested, ready)

    setattr(worker, "run_broker", watched)  # noqa: B010
    return worker.main(descriptor)


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        sys.exit(_watched_worker(int(sys.argv[1])))
    _watch_the_loop()
    main()
