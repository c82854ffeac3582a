"""A process of hostile clients: bursts of frames over many connections, whatever becomes of them.

python -m tests.hostile.sender DOOR HOST PORT FRAMES COSTLY_EVERY_SECONDS SEED REPORT
"""

import json
import os
import random
import selectors
import socket
import ssl
import struct
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.hostile.admission import Entrance
from tests.hostile.bursts import Burst, Frames, HttpAnswers, KafkaAnswers

CONNECTIONS: Final = 32
# Then a connection is given up, by a reset: what it sent waits for something, or has no answer.
PATIENCE_SECONDS: Final = 4.0
# Kafka's bursts are long, and are answered in order.
KAFKA_PATIENCE_SECONDS: Final = 10.0
# How often one that was answered goes on with the next burst instead of closing.
KEPT_SHARE: Final = 0.7
READ_BYTES: Final = 1024 * 1024
_RESET: Final = struct.pack("ii", 1, 0)

# Each with the class that makes its frames, which is loaded in the process that needs it.
DOORS: Final[dict[str, tuple[str, type]]] = {
    "kafka": ("KafkaFrames", KafkaAnswers),
    "http": ("HttpFrames", HttpAnswers),
    "sqs": ("SqsFrames", HttpAnswers),
    "registry": ("RegistryFrames", HttpAnswers),
}


class Peer:
    """One connection with the burst that is on it."""

    def __init__(self, address: tuple[str, int], answers: type, tls: ssl.SSLContext | None) -> None:
        self.socket = socket.socket()
        self.socket.setblocking(False)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=address[0])
        self.socket.connect_ex(address)
        self._answers_type = answers
        # TLS is not agreed on yet, and the broker has the next word.
        self._only_reads = False
        self.take(Burst(b"", 0))

    def take(self, burst: Burst) -> None:
        self.burst = burst
        self._unsent = memoryview(burst.data)
        self.answers = self._answers_type()
        self.since = time.monotonic()

    @property
    def wants(self) -> int:
        writes = self._unsent and not self._only_reads
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0)

    @property
    def is_answered(self) -> bool:
        return not self._unsent and self.answers.count >= self.burst.frames

    def go_on(self, events: int) -> bool:
        """False when the broker has closed it."""
        self._only_reads = False
        try:
            if self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
            if events & selectors.EVENT_READ:
                data = self.socket.recv(READ_BYTES)
                while isinstance(self.socket, ssl.SSLSocket) and self.socket.pending():
                    data += self.socket.recv(READ_BYTES)
                self.answers.feed(data)
                return bool(data)
        except ssl.SSLWantReadError:
            self._only_reads = True
        except (BlockingIOError, ssl.SSLWantWriteError):
            pass
        except OSError:
            return False
        return True

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.socket.close()


class Sender:
    def __init__(self, door: str, address: tuple[str, int], chance: random.Random) -> None:
        name, self._answers = DOORS[door]
        self._frames: Frames = getattr(import_module(f"tests.hostile.{door}_frames"), name)(chance)
        self._entrance = Entrance(door, chance)
        self._patience_seconds = KAFKA_PATIENCE_SECONDS if door == "kafka" else PATIENCE_SECONDS
        self._address = address
        self._chance = chance
        self._selector = selectors.DefaultSelector()
        self.counts = {"frames": 0, "connections": 0, "costly": 0, "closed": 0, "given_up": 0}
        self._costly_at = 0.0

    def run(self, frames: int, costly_every_seconds: float, report: Path) -> None:
        self._costly_at = time.monotonic() + costly_every_seconds
        for _ in range(CONNECTIONS):
            self._connect(costly_every_seconds)
        written = 0.0
        while self.counts["frames"] < frames:
            for key, events in self._selector.select(0.1):
                peer: Peer = key.data
                if not peer.go_on(events):
                    # The one that it was closed for counts as well.
                    self._ended(peer, costly_every_seconds, "closed", extra=1)
                elif peer.is_answered:
                    self._answered(peer, costly_every_seconds)
                elif peer.wants != key.events:
                    self._selector.modify(peer.socket, peer.wants, peer)
            now = time.monotonic()
            for key in list(self._selector.get_map().values()):
                if now - key.data.since > self._patience_seconds:
                    self._ended(key.data, costly_every_seconds, "given_up")
            if now - written > 1:
                written = now
                self._write(report)
        self._write(report)

    def _next(self, costly_every_seconds: float) -> Burst:
        if time.monotonic() < self._costly_at:
            return self._entrance.admitted(self._frames.burst())
        burst = self._frames.costly()
        self.counts["costly"] += 1
        self._costly_at = time.monotonic() + costly_every_seconds
        return self._entrance.admitted(burst)

    def _connect(self, costly_every_seconds: float) -> None:
        peer = Peer(self._address, self._answers, self._entrance.tls())
        peer.take(self._entrance.first() or self._next(costly_every_seconds))
        self.counts["connections"] += 1
        self._selector.register(peer.socket, peer.wants, peer)

    def _answered(self, peer: Peer, costly_every_seconds: float) -> None:
        if self._chance.random() > KEPT_SHARE:
            self._ended(peer, costly_every_seconds, "done")
            return
        self.counts["frames"] += peer.burst.frames
        peer.take(self._next(costly_every_seconds))
        self._selector.modify(peer.socket, peer.wants, peer)

    def _ended(self, peer: Peer, costly_every_seconds: float, why: str, extra: int = 0) -> None:
        self.counts["frames"] += min(peer.burst.frames, peer.answers.count + extra)
        if why in self.counts:
            self.counts[why] += 1
        self._selector.unregister(peer.socket)
        peer.reset()
        self._connect(costly_every_seconds)

    def _write(self, report: Path) -> None:
        unfinished = report.with_suffix(".tmp")
        unfinished.write_text(json.dumps(self.counts))
        unfinished.rename(report)


def stand_back() -> None:
    """Behind the broker and the canary, where those could not be put first."""
    if os.geteuid() != 0:
        os.nice(10)


def main(door: str, host: str, port: str, frames: str, every: str, seed: str, report: str) -> None:
    stand_back()
    sender = Sender(door, (host, int(port)), random.Random(seed))
    sender.run(int(frames), float(every), Path(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
