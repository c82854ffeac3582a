"""What rules cost: `python -m bench.rules`.

One broker in this process with two Kafka doors: at one everybody may do everything, at the other
the stored rules decide, of which there are many. A client in a process of its own asks them in
turns, always with several requests on their way. What counts is the processor time of the broker
for each request, which says the same on a busy machine.
"""

import argparse
import asyncio
import multiprocessing
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import uvloop

from bench.rounds import say
from goqueue.broker.node import Node
from goqueue.doors.kafka import KafkaDoor
from goqueue.model.broker_config import broker_config
from goqueue.model.caller import ANONYMOUS, Caller, Door
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.rules import Pattern, Rule
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService

TOPIC: Final = "orders"
OFF: Final = "off"
ON: Final = "on"
RATIO_BAR: Final = 0.98
# Besides the one that counts.
OTHER_RULES: Final = 1_000
# On their way at a time, as clients have it.
PIPELINED: Final = 5
_ANYONE: Final = Caller(principal=ANONYMOUS, door=Door.KAFKA)
_HEADER: Final = struct.pack(">h5s", 5, b"bench")


def _produce(records: bytes) -> bytes:
    name = TOPIC.encode()
    body = struct.pack(">hhiih", -1, 1, 5_000, 1, len(name)) + name
    body += struct.pack(">iii", 1, 0, len(records)) + records
    return _frame(0, 3, body)


def _fetch(max_bytes: int) -> bytes:
    name = TOPIC.encode()
    body = struct.pack(">iiiibih", -1, 100, 1, max_bytes, 0, 1, len(name)) + name
    body += struct.pack(">iiqi", 1, 0, 0, max_bytes)
    return _frame(1, 4, body)


def _frame(api_key: int, version: int, body: bytes) -> bytes:
    frame = struct.pack(">hhi", api_key, version, 7) + _HEADER + body
    return struct.pack(">i", len(frame)) + frame


def _records(count: int) -> bytes:
    made = encode_records([NewRecord(value=bytes(100))] * count, now_ms=int(time.time() * 1000))
    return bytes(made)


LOADS: Final[Mapping[str, bytes]] = {
    "produce, 1 message": _produce(_records(1)),
    "produce, 100 messages": _produce(_records(100)),
    "fetch, 1 message": _fetch(1),
    "fetch, 64 KB": _fetch(64 * 1024),
}


def client(orders: Connection) -> None:
    """In a process of its own: sends a frame so many times, and reads as many answers."""
    connections: dict[int, socket.socket] = {}
    while (order := orders.recv()) is not None:
        port, frame, count = order
        if port not in connections:
            connections[port] = socket.create_connection(("127.0.0.1", port))
            connections[port].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = connections[port]
        reader = link.makefile("rb")
        sent = min(PIPELINED, count)
        link.sendall(frame * sent)
        for _ in range(count):
            (size,) = struct.unpack(">i", reader.read(4))
            answer = reader.read(size)
            if sent < count:
                link.sendall(frame)
                sent += 1
        orders.send(answer)


async def measure(rounds: int, requests: int) -> dict[str, list[float]]:
    """For each load, the ratios off to on of the processor time, one for each round."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=client, args=(there,))
    process.start()
    with tempfile.TemporaryDirectory() as folder:
        texts = {"data.dir": str(Path(folder) / "data"), "kafka.port": "0", "http.port": "0"}
        node = await Node.open(broker_config(texts))
        doors = {
            OFF: KafkaDoor(BrokerService(node), node.config),
            ON: KafkaDoor(BrokerService(node, node.security.rules), node.config),
        }
        for door in doors.values():
            await node.announce(*await door.start(), 0)
        await _fill(node)
        ratios: dict[str, list[float]] = {name: [] for name in LOADS}
        loop = asyncio.get_running_loop()
        for number in range(rounds + 1):
            for name, frame in LOADS.items():
                took: dict[str, float] = {}
                for mode in (OFF, ON) if number % 2 else (ON, OFF):
                    here.send((doors[mode].address[1], frame, requests))
                    before = time.process_time()
                    answer = await loop.run_in_executor(None, here.recv)
                    took[mode] = time.process_time() - before
                    _check(name, answer)
                # The first round warms up.
                if number:
                    ratios[name].append(took[OFF] / took[ON])
        here.send(None)
        for door in doors.values():
            await door.stop()
        await node.close()
    process.join()
    return ratios


async def _fill(node: Node) -> None:
    everybody = BrokerService(node)
    await everybody.topics.create(_ANYONE, NewTopic(name=TOPIC, partitions=1))
    rules = [
        Rule(
            resource=Resource.TOPIC,
            name=f"topic-{number}",
            pattern=Pattern.PREFIXED if number % 2 else Pattern.LITERAL,
            principal=f"User:user-{number % 100}",
            verb=Verb.READ,
        )
        for number in range(OTHER_RULES)
    ]
    own = Rule(resource=Resource.TOPIC, name=TOPIC, principal=str(ANONYMOUS))
    await everybody.rules.add(_ANYONE, [*rules, own])


def _check(name: str, answer: bytes) -> None:
    """The error of the one partition."""
    at = 4 + 4 + 2 + len(TOPIC) + 4 + 4
    at += 0 if name.startswith("produce") else 4
    (error,) = struct.unpack_from(">h", answer, at)
    if error:
        raise SystemExit(f"{name}: error {error}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rules", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=2_000, help="in each round")
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        ratios = runner.run(measure(arguments.rounds, arguments.requests))
    for name, found in ratios.items():
        middle = statistics.median(found)
        low, _, high = statistics.quantiles(found, n=4)
        verdict = "" if middle >= RATIO_BAR else f", below {RATIO_BAR}"
        say(f"{name}: {middle:.3f} of the throughput without rules ({low:.3f}-{high:.3f}){verdict}")


if __name__ == "__main__":
    main()
