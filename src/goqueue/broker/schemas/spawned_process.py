"""A process of ours whose start does not stop the loop.

The loop's own way to start one forks, and then copies the page tables of the whole broker: a tenth
of a second where it holds half a gigabyte.
"""

import asyncio
import socket
import subprocess
from collections.abc import Mapping, Sequence


class SpawnedProcess:
    """What is written goes to its standard input; what it says on its standard output is read."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self.reader = reader
        self.writer = writer

    @classmethod
    async def start(
        cls, command: Sequence[str], environment: Mapping[str, str]
    ) -> "SpawnedProcess":
        """Raises `OSError`. A start that is given up leaves a process whose input has ended."""
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.to_thread(_spawn, command, environment, theirs)
            reader, writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            raise
        return cls(process, reader, writer)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    async def wait(self) -> int:
        """Its return code, when it has ended; negative: the signal that ended it."""
        code = await asyncio.to_thread(self._process.wait)
        self.writer.close()
        return code

    def kill(self) -> None:
        self._process.kill()


def _spawn(
    command: Sequence[str], environment: Mapping[str, str], theirs: socket.socket
) -> "subprocess.Popen[bytes]":
    with theirs:
        return subprocess.Popen(
            command,
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            env=environment,
        )
