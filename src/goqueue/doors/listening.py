"""Listens for connections, and takes those that came together soon."""

import asyncio
from collections.abc import Callable
from typing import Final

# libuv takes one connection of a listening socket between two looks at all sockets
# (github.com/libuv/libuv/pull/3696). On a busy loop, one who connects behind the hundreds of
# somebody else would wait for as many turns. Each costs a file descriptor, and a call of the kernel
# for every connection.
TAKEN_AT_ONCE: Final = 8


class Listeners:
    """As many listeners at each address as connections are taken at once."""

    def __init__(self, servers: list[asyncio.Server]) -> None:
        self._servers = servers

    @classmethod
    async def open(
        cls,
        connect: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        backlog: int,
        shares_port: bool = False,
    ) -> "Listeners":
        """`OSError` if it cannot listen there."""
        loop = asyncio.get_running_loop()
        first = await loop.create_server(
            connect, host, port, backlog=backlog, reuse_port=shares_port or None
        )
        opened = cls([first])
        try:
            for listening in first.sockets:
                for _ in range(TAKEN_AT_ONCE - 1):
                    same = listening.dup()
                    opened._servers.append(
                        await loop.create_server(connect, sock=same, backlog=backlog)
                    )
        except OSError:
            opened.close()
            raise
        return opened

    @property
    def address(self) -> tuple[str, int]:
        """The first of them."""
        host, port, *_ = self._servers[0].sockets[0].getsockname()
        return host, port

    def close(self) -> None:
        for server in self._servers:
            server.close()
