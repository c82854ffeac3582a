"""How many bytes must arrive before the socket says that there are some (SO_RCVLOWAT).

A request of a megabyte comes in hundreds of packets, by TLS some of ten bytes, and each would wake
the broker, which costs it and the client alike.
"""

import asyncio
import socket
import sys
from typing import Final

# Worth waking for, and less than any socket's own buffer.
STEP_BYTES: Final = 96 * 1024
# The end of a request is not waited for: what arrived may still be part of a record of TLS, of
# 16 KB at most, and is counted here only when that is whole.
END_BYTES: Final = 32 * 1024
# On other systems a mark may lie beyond what the socket's buffer takes.
IS_KNOWN: Final = sys.platform == "linux"


class LowWater:
    """Of one connection."""

    __slots__ = ("_mark",)

    def __init__(self) -> None:
        self._mark = 1

    def expect(self, missing_bytes: int, transport: asyncio.Transport | None) -> None:
        """Of a request that is not whole yet; none: the next one is waited for."""
        mark = min(missing_bytes - END_BYTES, STEP_BYTES)
        self._set(mark if mark > END_BYTES else 1, transport)

    def expect_anything(self, transport: asyncio.Transport | None) -> None:
        """Whoever sends slowly is heard, too."""
        self._set(1, transport)

    def _set(self, mark: int, transport: asyncio.Transport | None) -> None:
        if mark == self._mark or transport is None or transport.is_closing() or not IS_KNOWN:
            return
        self._mark = mark
        place = transport.get_extra_info("socket")
        if place is not None:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
