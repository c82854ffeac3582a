"""Connections that came together are taken together."""

import asyncio
import socket

import pytest
import uvloop

from goqueue.doors.listening import TAKEN_AT_ONCE, Listeners


def on_uvloop(work: object) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)  # type: ignore[arg-type]


def test_one_who_connects_behind_many_waits_for_few_looks_at_the_sockets() -> None:
    async def connect_many() -> None:
        taken: list[asyncio.BaseTransport] = []

        class Taken(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                taken.append(transport)

        listeners = await Listeners.open(Taken, "127.0.0.1", 0, backlog=1_000)
        # The kernel takes them; the loop has not looked yet.
        count = 20 * TAKEN_AT_ONCE
        clients = [socket.create_connection(listeners.address, 30) for _ in range(count)]
        looks = 0
        while len(taken) < count:
            await asyncio.sleep(0)
            looks += 1
        # One to begin with, one to tell the last of them.
        assert looks <= count / TAKEN_AT_ONCE + 4
        for client in clients:
            client.close()
        listeners.close()

    on_uvloop(connect_many())


def test_a_port_is_free_again_after_it_was_closed() -> None:
    async def listen_twice() -> None:
        listeners = await Listeners.open(asyncio.Protocol, "127.0.0.1", 0, backlog=10)
        host, port = listeners.address
        with pytest.raises(OSError, match="address already in use"):
            await Listeners.open(asyncio.Protocol, host, port, backlog=10)
        listeners.close()
        await asyncio.sleep(0)
        again = await Listeners.open(asyncio.Protocol, host, port, backlog=10)
        assert again.address == (host, port)
        again.close()

    on_uvloop(listen_twice())
