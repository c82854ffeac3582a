"""Members of classic groups as cheap as can be: bare frames, many members to a connection."""

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_JOIN, _HEARTBEAT, _SYNC = 11, 12, 14
# The newest version that does not send a new member away to come back with its id.
_JOIN_VERSION: Final = 3
# Longer than it takes to form all groups: heartbeats begin after that.
_SESSION_MS: Final = 300_000
_ANSWER_LIMIT_S: Final = 60.0


class Member(NamedTuple):
    heartbeat: bytes
    connection: "MemberConnection"


@dataclass
class Heartbeats:
    """What came of them."""

    sent: int = 0
    answered: int = 0
    refused: int = 0
    waiting: dict[int, float] = field(default_factory=dict)
    latencies_ms: list[float] = field(default_factory=list)


class MemberConnection(asyncio.Protocol):
    def __init__(self, beats: Heartbeats) -> None:
        self._beats = beats
        self._loop = asyncio.get_running_loop()
        self._unread = b""
        self._answers: dict[int, asyncio.Future[bytes]] = {}
        self._next_id = 0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        position = 0
        while len(self._unread) - position >= 8:
            size, correlation_id = struct.unpack_from(">ii", self._unread, position)
            end = position + 4 + size
            if end > len(self._unread):
                break
            self._answered(correlation_id, self._unread[position + 8 : end])
            position = end
        self._unread = self._unread[position:]

    def _answered(self, correlation_id: int, body: bytes) -> None:
        future = self._answers.pop(correlation_id, None)
        if future is not None:
            if not future.done():
                future.set_result(body)
            return
        beats = self._beats
        beats.answered += 1
        sent_at = beats.waiting.pop((id(self) << 32) + correlation_id)
        beats.latencies_ms.append((self._loop.time() - sent_at) * 1000)
        beats.refused += body != b"\0\0"

    def beat(self, body: bytes) -> None:
        self._next_id += 1
        self._beats.sent += 1
        self._beats.waiting[(id(self) << 32) + self._next_id] = self._loop.time()
        self.transport.write(_frame(_HEARTBEAT, 0, self._next_id, body))

    async def ask(self, api_key: int, version: int, body: bytes) -> bytes:
        self._next_id += 1
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._answers[self._next_id] = future
        self.transport.write(_frame(api_key, version, self._next_id, body))
        return await asyncio.wait_for(future, _ANSWER_LIMIT_S)

    async def join(self, group: str) -> tuple[int, str, str]:
        """Generation, leader and own id."""
        protocol = _string("range") + struct.pack(">i", 0)
        body = _string(group) + struct.pack(">ii", _SESSION_MS, _SESSION_MS)
        body += _string("") + _string("consumer") + struct.pack(">i", 1) + protocol
        answer = await self.ask(_JOIN, _JOIN_VERSION, body)
        _throttle_ms, error, generation = struct.unpack_from(">ihi", answer)
        if error:
            raise RuntimeError(f"JoinGroup answered error {error}")
        position = 10
        names = []
        for _ in range(3):  # protocol, leader, own id
            (length,) = struct.unpack_from(">h", answer, position)
            names.append(answer[position + 2 : position + 2 + length].decode())
            position += 2 + length
        return generation, names[1], names[2]

    async def sync(self, group: str, generation: int, member_id: str) -> None:
        body = _string(group) + struct.pack(">i", generation) + _string(member_id)
        answer = await self.ask(_SYNC, 0, body + struct.pack(">i", 0))
        (error,) = struct.unpack_from(">h", answer)
        if error:
            raise RuntimeError(f"SyncGroup answered error {error}")


async def form_group(group: str, connections: Sequence[MemberConnection]) -> list[Member]:
    """One member on each connection, all of one generation."""
    joined = await asyncio.gather(*(connection.join(group) for connection in connections))
    # Latecomers make another generation: whoever is of the newest one is in the group.
    newest = max(generation for generation, _, _ in joined)
    if any(generation != newest for generation, _, _ in joined):
        raise RuntimeError(f"{group}: members of different generations; raise the initial delay")
    await asyncio.gather(
        *(
            connection.sync(group, generation, member_id)
            for connection, (generation, _, member_id) in zip(connections, joined, strict=True)
        )
    )
    return [
        Member(_string(group) + struct.pack(">i", generation) + _string(member_id), connection)
        for connection, (generation, _, member_id) in zip(connections, joined, strict=True)
    ]


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _frame(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, version, correlation_id, -1)
    return struct.pack(">i", len(header) + len(body)) + header + body
