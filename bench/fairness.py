"""What one tenant notices of another that asks as fast as it can: `python -m bench.fairness`.

Both log in over HTTP by keys. A has hundreds of connections and no quota, and publishes and reads
flat out; B has one, and publishes a small message a hundred times a second. The loop takes the
requests of tenants in turn, so that B waits for a turn and not for all that A has asked. What is
left is that A uses the processor.
"""

import argparse
import asyncio
import os
import socket
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

import uvloop

from bench.brokers.guarded import set_options
from bench.rounds import say
from bench.secured_broker import administration, make_tenant, security_settings
from bench.together import begun, together
from goqueue.testing.server_process import ServerProcess

CONNECTIONS: Final = 200
PAUSE_SECONDS: Final = 0.01
TOPIC: Final = "orders"
# What is read, in pages of a few messages.
READ_TOPIC: Final = "prices"
READ_MESSAGES: Final = 100
# B is connected before A begins: what is compared is how requests are served, not how connections
# are taken. Twice as long is not measured.
HEAD_START_SECONDS: Final = 3.0
_BODY: Final = b'{"messages":[{"value":"' + b"x" * 100 + b'"}]}'
_END_OF_HEAD: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length: "


def publishing(key: str) -> bytes:
    head = (
        f"POST /topics/{TOPIC}/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        f"authorization: Bearer {key}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(_BODY)}\r\n\r\n"
    )
    return head.encode() + _BODY


def reading(key: str) -> bytes:
    return (
        f"GET /topics/{READ_TOPIC}/partitions/0/messages?limit=10 HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        f"authorization: Bearer {key}\r\n\r\n"
    ).encode()


class Asker(asyncio.Protocol):
    """Asks again as soon as it is answered."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._got = b""
        self.answers = 0
        self.refused = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._got += data
        if has_ended(self._got):
            if not self._got.startswith(b"HTTP/1.1 200"):
                self.refused = self._got
                return
            self._got = b""
            self.answers += 1
            self._transport.write(self._request)


def has_ended(answer: bytes) -> bool:
    head, found, body = answer.partition(_END_OF_HEAD)
    return bool(found) and len(body) >= int(head.lower().split(_LENGTH)[1].split(b"\r")[0])


def flood(port: int, key: str, seconds: float) -> float:
    """A: requests per second."""

    async def ask() -> float:
        loop = asyncio.get_running_loop()
        requests = (publishing(key), reading(key))
        askers = [Asker(requests[number % 2]) for number in range(CONNECTIONS)]
        await asyncio.sleep(HEAD_START_SECONDS)
        remaining = iter(askers)
        for _ in askers:
            await loop.create_connection(lambda: next(remaining), "127.0.0.1", port)
        await asyncio.sleep(seconds)
        refused = {asker.refused for asker in askers} - {b""}
        if refused:
            raise SystemExit(f"refused: {refused.pop().decode()}")
        return sum(asker.answers for asker in askers) / seconds

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(ask())


def pace(port: int, key: str, seconds: float) -> list[float]:
    """B: how long each request takes."""
    request, latencies = publishing(key), []
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        measured_from = time.perf_counter() + 2 * HEAD_START_SECONDS
        while (began := time.perf_counter()) < measured_from + seconds:
            answer = b""
            link.sendall(request)
            while not has_ended(answer):
                answer += link.recv(65_536)
            if began >= measured_from:
                latencies.append(time.perf_counter() - began)
            time.sleep(PAUSE_SECONDS)
    return latencies


def key_of(url: str, user: str) -> str:
    """Made with the password, which costs far more to check than a key. Makes the topics, too."""
    with administration(url, user) as http:
        for name in (TOPIC, READ_TOPIC):
            http.post("/topics", json={"name": name, "partitions": 1}).raise_for_status()
        prices = {"messages": [{"value": number} for number in range(READ_MESSAGES)]}
        http.post(f"/topics/{READ_TOPIC}/messages", json=prices).raise_for_status()
        made = http.post(f"/users/{user}/keys", json={"kind": "api"}).raise_for_status()
    return str(made.json()["token"])


def percentile(latencies: list[float], percent: int) -> float:
    return statistics.quantiles(latencies, n=100)[percent - 1]


def measure(server: ServerProcess, rounds: int, seconds: float) -> str:
    with administration(server.http_url) as http:
        users = [make_tenant(http, name, {}) for name in ("a", "b")]
    key_a, key_b = (key_of(server.http_url, user) for user in users)
    port = int(server.http_url.rpartition(":")[2])
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    rates: list[float] = []
    for number in range(rounds):
        [quiet] = together(begun(pace, port, key_b, seconds))
        rate, busy = together(
            begun(flood, port, key_a, seconds + HEAD_START_SECONDS),
            begun(pace, port, key_b, seconds),
        )
        alone.append(quiet)
        beside.append(busy)
        rates.append(rate)
        say(f"  round {number + 1} of {rounds}")
    lines = ["| what | B alone | B beside A | times |", "|---|---:|---:|---:|"]
    for name, percent in (("median", 50), ("p99", 99)):
        quiet_ms, busy_ms = (
            statistics.median(percentile(latencies, percent) for latencies in each) * 1000
            for each in (alone, beside)
        )
        lines.append(
            f"| {name} | {quiet_ms:.2f} ms | {busy_ms:.2f} ms | {busy_ms / quiet_ms:.2f} |"
        )
    lines.append(f"| requests of A | | {statistics.median(rates):,.0f} per s | |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fairness", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="file to write the table to")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = set_options(security_settings(folder / "security"))
        with ServerProcess(folder / "data", *settings) as server:
            table = measure(server, given.rounds, given.seconds)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    said = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} processors, load {load}"
    print(f"{table}\n\n{said}")
    if given.out is not None:
        given.out.write_text(f"# Fairness between tenants over HTTP\n\n{said}\n\n{table}\n")


if __name__ == "__main__":
    main()
