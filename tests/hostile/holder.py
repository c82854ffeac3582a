"""A process that holds connections: idle ones, half frames, requests whose answers nobody reads.

What the broker closes is opened again, so that there are always as many.

    python -m tests.hostile.holder KAFKA_PORT HTTP_PORT COUNT FIRST_ADDRESS SEED REPORT
"""

import json
import random
import resource
import selectors
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from goqueue.doors.kafka.handlers import OPERATIONS
from tests.hostile.kafka_requests import frame, small_frames
from tests.hostile.sender import stand_back

# Of all connections; the rest goes to Kafka's door. HTTP's holds 4,096 at once.
HTTP_SHARE: Final = 0.3
OPENED_PER_SECOND: Final = 400
# Of those that ask for much and do not read it: the others do not even ask.
UNREAD_SHARE: Final = 0.1
# A slow reader takes this much of its answer, now and then.
SIP_BYTES: Final = 16


class Holder:
    def __init__(
        self, kafka_port: int, http_port: int, first_address: int, chance: random.Random
    ) -> None:
        self._ports = {"kafka": kafka_port, "http": http_port}
        self._first_address = first_address
        self._chance = chance
        self._selector = selectors.DefaultSelector()
        self.counts: Counter[str] = Counter()
        self._number = 0
        small = small_frames()
        wide = frame(OPERATIONS[3], 9, {"topics": None})
        body = b"POST /topics/hostile-0/messages HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        self._habits: dict[str, list[Callable[[], bytes]]] = {
            "kafka": [
                lambda: b"",
                lambda: b"",
                lambda: chance.choice(small)[: chance.randrange(1, 12)],
                lambda: (90_000_000).to_bytes(4, "big") + b"\0\0\0\x09" + bytes(20_000),
                lambda: wide * 20 if chance.random() < UNREAD_SHARE else b"",
            ],
            "http": [
                lambda: b"",
                lambda: b"GET /topics HT",
                lambda: body + b"Content-Length: 100000\r\n\r\n" + b"x",
                lambda: body + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                lambda: b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 100,
            ],
        }

    def run(self, count: int, report: Path) -> None:
        written = 0.0
        while True:
            began = time.monotonic()
            missing = count - len(self._selector.get_map())
            for _ in range(min(missing, OPENED_PER_SECOND // 10)):
                self._open()
            for key, _ in self._selector.select(0.05):
                self._sip(key.fileobj)  # type: ignore[arg-type]
            if began - written > 1:
                written = began
                self.counts["held"] = len(self._selector.get_map())
                self.counts["held_most"] = max(self.counts["held_most"], self.counts["held"])
                unfinished = report.with_suffix(".tmp")
                unfinished.write_text(json.dumps(self.counts))
                unfinished.rename(report)
            time.sleep(max(0.0, 0.1 - (time.monotonic() - began)))

    def _open(self) -> None:
        self._number += 1
        door = "http" if self._chance.random() < HTTP_SHARE else "kafka"
        peer = socket.socket()
        peer.setblocking(False)
        # Small windows: what is not read soon fills up the broker's side.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            peer.bind((f"127.0.{self._first_address}.{1 + self._number % 250}", 0))
            peer.connect_ex(("127.0.0.1", self._ports[door]))
            habit = self._chance.choice(self._habits[door])
            self._selector.register(peer, selectors.EVENT_WRITE, habit)
            self.counts["opened"] += 1
        except OSError:
            peer.close()
            self.counts["refused"] += 1

    def _sip(self, peer: socket.socket) -> None:
        habit = self._selector.get_key(peer).data
        try:
            if habit is not None:
                peer.send(habit())
                self._selector.modify(peer, selectors.EVENT_READ, None)
            elif self._chance.random() < 0.1 and not peer.recv(SIP_BYTES):
                self._close(peer)
        except BlockingIOError:
            pass
        except OSError:
            self._close(peer)

    def _close(self, peer: socket.socket) -> None:
        self._selector.unregister(peer)
        peer.close()
        self.counts["closed"] += 1


def main(kafka: str, http: str, count: str, first_address: str, seed: str, report: str) -> None:
    stand_back()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    holder = Holder(int(kafka), int(http), int(first_address), random.Random(seed))
    holder.run(int(count), Path(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
