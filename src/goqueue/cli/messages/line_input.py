"""Lines from a terminal, a pipe or a file, as they come, without blocking the event loop."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from typing import Final

from goqueue.cli.failures import CommandFailed

_CHUNK_BYTES: Final = 65_536
# Chunks read ahead of the network; then reading waits.
_CHUNKS_AHEAD: Final = 16
# Far above what a broker takes as one message; a "line" beyond this is not text.
LINE_MAX_BYTES: Final = 64 * 1024 * 1024


async def read_lines(descriptor: int) -> AsyncIterator[list[bytes]]:
    """Yield the lines that have arrived, many at a time, without their line ends."""
    unfinished = b""
    async for chunk in _read_chunks(descriptor):
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        if len(unfinished) > LINE_MAX_BYTES:
            raise CommandFailed(f"a line is longer than the limit of {LINE_MAX_BYTES} bytes")
        if lines:
            yield lines
    if unfinished:
        yield [unfinished]


async def _read_chunks(descriptor: int) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue(_CHUNKS_AHEAD)

    def read() -> None:
        # Not through sys.stdin: its lock, held while waiting for input, would block the exit.
        while True:
            item: bytes | OSError
            try:
                item = os.read(descriptor, _CHUNK_BYTES)
            except OSError as error:
                item = error
            try:
                asyncio.run_coroutine_threadsafe(chunks.put(item), loop).result()
            except (RuntimeError, asyncio.CancelledError):
                return  # the loop is gone: the command has ended
            if not isinstance(item, bytes) or not item:
                return

    # A daemon, so that Ctrl-C ends a command that waits for its terminal.
    threading.Thread(target=read, name="input", daemon=True).start()
    while True:
        item = await chunks.get()
        if isinstance(item, OSError):
            raise CommandFailed(f"cannot read the input: {item.strerror}") from item
        if not item:
            return
        yield item
