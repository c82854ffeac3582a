"""The worker process, as its broker sees it."""

import os
import signal
import subprocess
import sys
import threading
from typing import Final

import msgspec

from goqueue.own_package import python_path
from goqueue.storage.compaction.plan import Answer, CompactionPlan, Failed

# Of what a dying worker says, this much goes into the log line.
_REASON_CHARACTERS_MAX: Final = 500

_ANSWER: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)


class CompactionWorker:
    """One run in a process of its own, which can be ended at any time."""

    def __init__(self, plan: CompactionPlan) -> None:
        self._plan = plan
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False
        self._starting = threading.Lock()

    def run(self) -> Answer:
        """Blocking: start the process and wait for its answer."""
        with self._starting:
            if self._is_killed:
                return Failed(reason="it was stopped")
            try:
                self._process = self._start()
            except OSError as error:
                return Failed(reason=f"no worker could be started: {error}")
        answer, complaint = self._process.communicate(msgspec.msgpack.encode(self._plan))
        if self._process.returncode != 0:
            return Failed(reason=_reason(self._process.returncode, complaint))
        try:
            return _ANSWER.decode(answer)
        except msgspec.MsgspecError as error:
            return Failed(reason=f"the worker's answer cannot be read: {error}")

    def kill(self) -> None:
        """From any thread; `run` then returns soon."""
        with self._starting:
            self._is_killed = True
        if self._process is not None:
            self._process.kill()

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "goqueue.storage.compaction", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": python_path()},
        )


def _reason(code: int, complaint: bytes) -> str:
    if code < 0:
        return f"the worker was ended by {signal.Signals(-code).name}"
    text = complaint.decode(errors="replace").strip()
    return f"the worker ended with code {code}: {text[-_REASON_CHARACTERS_MAX:]}"
