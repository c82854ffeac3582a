"""The network between the processes of a cluster, which can be cut.

Every process is reached through a port of this network, which passes bytes on to it. Who connects
to it is found in Linux's table of sockets, so that a cut between two processes leaves all others
alone. A cut holds bytes back, as a network does that loses them: neither side is told, and what was
sent comes when the cut is healed, if the connection still stands then.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from goqueue.testing.ports import free_port

Place = int | str
"""A broker by its node id, or "etcd"."""

_READ_MAX_BYTES: Final = 1 << 18
_CALL_MAX_S: Final = 30.0


class ClusterLinks:
    def __init__(self, pid_of: Callable[[], dict[Place, int]]) -> None:
        """`pid_of` names the processes that are running now."""
        self._pid_of = pid_of
        self._loop = asyncio.new_event_loop()
        self._gates: dict[tuple[Place, Place], asyncio.Event] = {}
        self._ports: dict[int, _Port] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def port_to(self, place: Place, target_port: int, only_for: Place | None = None) -> int:
        """A new port that leads to a process; `only_for` says who comes, where that is known."""
        port = free_port()
        self._ports[port] = _Port(self, place, target_port, port, only_for)
        self._call(self._ports[port].open())
        return port

    def cut(self, source: Place, target: Place) -> None:
        """What `source` sends does not reach `target` any more."""
        self._loop.call_soon_threadsafe(self._gate(source, target).clear)

    def heal(self) -> None:
        for gate in list(self._gates.values()):
            self._loop.call_soon_threadsafe(gate.set)

    def refuse(self, place: Place) -> None:
        """The process is gone: its ports refuse, and what was connected is closed."""
        for port in self._ports.values():
            if port.place == place:
                self._call(port.close())

    def admit(self, place: Place) -> None:
        for port in self._ports.values():
            if port.place == place:
                self._call(port.open())

    def close(self) -> None:
        for port in self._ports.values():
            self._call(port.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_MAX_S)
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_MAX_S)

    def _gate(self, source: Place, target: Place) -> asyncio.Event:
        gate = self._gates.get((source, target))
        if gate is None:
            gate = self._gates[source, target] = asyncio.Event()
            gate.set()
        return gate

    async def passes(self, source: Place | None, target: Place | None) -> None:
        """Wait until what `source` sends reaches `target`; clients are never cut off."""
        if source is not None and target is not None:
            await self._gate(source, target).wait()

    def place_of(self, peer_port: int, own_port: int) -> Place | None:
        inode = _socket_inode(peer_port, own_port)
        for place, pid in self._pid_of().items():
            if inode is not None and _holds(pid, inode):
                return place
        return None


class _Port:
    """One way to a process."""

    def __init__(
        self, links: ClusterLinks, place: Place, target: int, own: int, only_for: Place | None
    ) -> None:
        self.place = place
        self._links = links
        self._target = target
        self._own = own
        self._only_for = only_for
        self._listening: socket.socket | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        if self._listening is None:
            self._listening = socket.create_server(("127.0.0.1", self._own))
            self._listening.setblocking(False)
            loop = asyncio.get_running_loop()
            loop.add_reader(self._listening, self._accept, self._listening)

    async def close(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        # A task that has begun closes its connection when it is cancelled.
        await asyncio.sleep(0)
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, listening: socket.socket) -> None:
        """`asyncio.start_server` and `sock_accept` leave open what they have half accepted when
        they are ended: who connects in the moment of a kill would believe that all is well.
        """
        with contextlib.suppress(OSError):
            accepted, _ = listening.accept()
            accepted.setblocking(False)
            serving = asyncio.get_running_loop().create_task(self._serve(accepted))
            self._connections.add(serving)
            serving.add_done_callback(self._connections.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=accepted)
        try:
            await self._connect(reader, writer)
        except (OSError, asyncio.CancelledError):
            # A killed process leaves no good-bye, and this task has nobody to tell.
            writer.transport.abort()
        finally:
            writer.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer_port: int = writer.get_extra_info("peername")[1]
        caller = self._only_for
        if caller is None:
            caller = self._links.place_of(peer_port, self._own)
        # A connection is made by messages of both sides.
        await self._links.passes(caller, self.place)
        await self._links.passes(self.place, caller)
        answers, requests = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, requests, caller, self.place))
                pumps.create_task(self._pump(answers, writer, self.place, caller))
        except* OSError:
            pass  # one side was reset; both are closed below
        finally:
            requests.transport.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        source: Place | None,
        target: Place | None,
    ) -> None:
        while data := await reader.read(_READ_MAX_BYTES):
            await self._links.passes(source, target)
            writer.write(data)
            await writer.drain()
        await self._links.passes(source, target)
        with contextlib.suppress(OSError):
            writer.write_eof()


def _socket_inode(local_port: int, remote_port: int) -> str | None:
    """The socket of loopback's connection from one port to another, as /proc/net/tcp lists it."""
    wanted = (f":{local_port:04X}", f":{remote_port:04X}")
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        columns = line.split()
        if columns[1].endswith(wanted[0]) and columns[2].endswith(wanted[1]):
            return columns[9]
    return None


def _holds(pid: int, inode: str) -> bool:
    name = f"socket:[{inode}]"
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if str(entry.readlink()) == name:
                    return True
    return False
