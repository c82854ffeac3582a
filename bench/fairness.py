"""What one tenant notices of another that asks as fast as it can: `python -m bench.fairness`.

Both log in over HTTP by keys. A has hundreds of connections and no quota, and publishes and reads
flat out; B has one, and publishes a small message a hundred times a second, each tenth on a
connection that it opens for it. The loop takes the requests of tenants in turn, so that B waits for
a turn and not for all that A has asked. What is left is that A uses the processor; so A also runs
at a second broker, where B has nothing but the machine in common with it.
"""

import argparse
import asyncio
import itertools
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, cast

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
# B is connected before A begins, and its requests count once all of A are. Those on new connections
# count from when A begins, since all of A are before them then.
HEAD_START_SECONDS: Final = 3.0
# Each so many-th request of B is on a new connection.
NEW_EVERY: Final = 10
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


class Latencies(NamedTuple):
    """Of requests on the connection that there is, and on new ones, with opening those."""

    known: list[float]
    new: list[float]


def pace(port: int, key: str, seconds: float) -> Latencies:
    """B: how long each request takes."""
    request, found = publishing(key), Latencies([], [])
    began_all = time.perf_counter()
    measured_from = began_all + 2 * HEAD_START_SECONDS
    with connected(port) as link:
        for number in itertools.count():
            if (began := time.perf_counter()) >= measured_from + seconds:
                return found
            if number % NEW_EVERY:
                answered(link, request)
                if began >= measured_from:
                    found.known.append(time.perf_counter() - began)
            else:
                with connected(port) as new:
                    answered(new, request)
                if began >= began_all + HEAD_START_SECONDS:
                    found.new.append(time.perf_counter() - began)
            time.sleep(PAUSE_SECONDS)
    raise AssertionError


def connected(port: int) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", port))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def answered(link: socket.socket, request: bytes) -> None:
    answer = b""
    link.sendall(request)
    while not has_ended(answer):
        answer += link.recv(65_536)


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


class Site(NamedTuple):
    port: int
    key_a: str
    key_b: str


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """A broker with both tenants."""
    settings = set_options(security_settings(folder.with_suffix(".security")))
    with ServerProcess(folder, *settings) as server:
        with administration(server.http_url) as http:
            users = [make_tenant(http, name, {}) for name in ("a", "b")]
        keys = (key_of(server.http_url, user) for user in users)
        yield Site(int(server.http_url.rpartition(":")[2]), *keys)


def measure(here: Site, there: Site, rounds: int, seconds: float) -> str:
    # By where A is.
    found: dict[Site | None, list[Latencies]] = {None: [], here: [], there: []}
    rates: list[float] = []
    for number in range(rounds):
        for at in list(found)[:: 1 if number % 2 else -1]:
            flooding = [begun(flood, at.port, at.key_a, seconds + HEAD_START_SECONDS)] if at else []
            *rate, latencies = together(*flooding, begun(pace, here.port, here.key_b, seconds))
            found[at].append(latencies)
            rates += rate if at is here else []
        say(f"  round {number + 1} of {rounds}")
    lines = [
        "| what | B alone | B beside A | times | A at another broker | times |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, figure in FIGURES.items():
        alone, *others = (
            statistics.median(map(figure, latencies)) * 1000 for latencies in found.values()
        )
        compared = " | ".join(f"{each:.2f} ms | {each / alone:.2f}" for each in others)
        lines.append(f"| {name} | {alone:.2f} ms | {compared} |")
    lines.append(f"| requests of A | | {statistics.median(rates):,.0f} per s | | | |")
    return "\n".join(lines)


FIGURES: Final[dict[str, Callable[[Latencies], float]]] = {
    "median": lambda found: percentile(found.known, 50),
    "p99": lambda found: percentile(found.known, 99),
    "median on a new connection": lambda found: percentile(found.new, 50),
    "longest on a new connection": lambda found: max(found.new),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fairness", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="file to write the table to")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with site(folder / "here") as here, site(folder / "there") as there:
            table = measure(here, there, given.rounds, given.seconds)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    said = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} processors, load {load}"
    print(f"{table}\n\n{said}")
    if given.out is not None:
        given.out.write_text(f"# Fairness between tenants over HTTP\n\n{said}\n\n{table}\n")


if __name__ == "__main__":
    main()
