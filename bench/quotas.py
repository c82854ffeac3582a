"""`python -m bench.quotas`: what quotas hold, what others notice of it, and what they cost.

Clients are librdkafka's, which ignore throttle times. A offers ten times its quota and reads a
backlog; B sends a small message now and then. Rounds with and without take turns, since machines
are never the same twice. Bars: A within 10 % of its quota over 30 s, B's p99 at most 1.2 times
alone, throughput with quotas that limit nobody at least 0.98 times that without.
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
from confluent_kafka import Consumer, KafkaError, Message, Producer

from goqueue.testing.server_process import ServerProcess

QUOTA_BYTES: Final = 1_000_000
OFFERED: Final = 10
VALUE_BYTES: Final = 5_000
PRODUCERS: Final = 3
# B asks a hundred times a second.
PAUSE_SECONDS: Final = 0.01
SMALL_BYTES: Final = 100
BATCH_BYTES: Final = 50_000
LIMITS_NOBODY: Final = 10**12
_CONTEXT: Final = multiprocessing.get_context("spawn")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Held(NamedTuple):
    produced: float
    consumed: float


def client(bootstrap: str, client_id: str, **more: object) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, "client.id": client_id, "log_level": 2, **more}


def flood(
    bootstrap: str, client_id: str, topic: str, seconds: float, rate: float, batch_bytes: int
) -> float:
    """Offer `rate` bytes per second (0: what it can); returns those that were acknowledged."""
    producer = Producer(
        client(
            bootstrap,
            client_id,
            **{"batch.size": batch_bytes, "linger.ms": 5, "queue.buffering.max.kbytes": 20_000},
        )
    )
    taken = 0

    def count(error: KafkaError | None, message: Message) -> None:
        nonlocal taken
        if error is None:
            taken += len(message.value() or b"")

    value, offered, began = b"x" * VALUE_BYTES, 0, time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        if rate and offered > rate * (now - began):
            producer.poll(0.005)
            continue
        try:
            producer.produce(topic, value, on_delivery=count)
            offered += VALUE_BYTES
            producer.poll(0)
        except BufferError:
            producer.poll(0.02)
    producer.purge()
    return float(taken)


def read(bootstrap: str, client_id: str, topic: str, seconds: float) -> float:
    """Bytes that came within the time."""
    options = {"group.id": client_id, "auto.offset.reset": "earliest"}
    consumer = Consumer(client(bootstrap, client_id, **options))
    consumer.subscribe([topic])
    began, got = 0.0, 0
    while not began or time.monotonic() < began + seconds:
        for message in consumer.consume(1_000, 0.1):
            began = began or time.monotonic()
            got += len(message.value() or b"")
    return float(got)


def ask(bootstrap: str, topic: str, seconds: float) -> list[float]:
    """B: how long each small message takes to be acknowledged."""
    producer = Producer(client(bootstrap, "b", **{"linger.ms": 0}))
    latencies: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        producer.produce(topic, b"x" * SMALL_BYTES)
        producer.flush()
        latencies.append(time.perf_counter() - began)
        time.sleep(PAUSE_SECONDS)
    return latencies[len(latencies) // 10 :]


def _tell(answer: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    answer.send(work(*arguments))


def begun(work: Callable[..., Any], *arguments: Any) -> "tuple[SpawnProcess, Connection]":
    ours, theirs = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_tell, args=(theirs, work, arguments))
    process.start()
    theirs.close()
    return process, ours


def together(*works: "tuple[SpawnProcess, Connection]") -> list[Any]:
    answers = [answer.recv() for _, answer in works]
    for process, _ in works:
        process.join()
    return answers


def set_quotas(http: httpx.Client, client_id: str, values: dict[str, float]) -> None:
    names = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
    gone = [name for name in names if name not in values]
    change = {"clientId": client_id, "set": values, "remove": gone}
    http.patch("/quotas", json={"changes": [change]}).raise_for_status()


def p99(latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=100)[98]


def load_of_a(server: ServerProcess, seconds: float) -> "list[tuple[SpawnProcess, Connection]]":
    each = OFFERED * QUOTA_BYTES / PRODUCERS
    writers = [
        begun(flood, server.bootstrap_servers, "a", "of-a", seconds, each, 100_000)
        for _ in range(PRODUCERS)
    ]
    return [*writers, begun(read, server.bootstrap_servers, "a", "backlog", seconds)]


def measure_neighbours(
    server: ServerProcess, http: httpx.Client, seconds: float, rounds: int
) -> tuple[list[Held], list[float], list[float]]:
    together(begun(flood, server.bootstrap_servers, "loader", "backlog", 8.0, 0, 100_000))
    limits = {"producer_byte_rate": QUOTA_BYTES, "consumer_byte_rate": QUOTA_BYTES}
    set_quotas(http, "a", {name: float(value) for name, value in limits.items()})
    held, alone, beside = [], [], []
    for _ in range(rounds):
        [quiet] = together(begun(ask, server.bootstrap_servers, "of-b", seconds))
        *written, got, busy = together(
            *load_of_a(server, seconds), begun(ask, server.bootstrap_servers, "of-b", seconds)
        )
        held.append(Held(sum(written) / seconds, got / seconds))
        alone.append(p99(quiet))
        beside.append(p99(busy))
    set_quotas(http, "a", {})
    return held, alone, beside


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def measure_cost(
    server: ServerProcess, http: httpx.Client, seconds: float, rounds: int
) -> dict[bool, list[tuple[float, float]]]:
    """Bytes per second, and bytes per second of the broker's processor time, by whether there are
    quotas. Batches are not large, so that there are many requests."""
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    everything = float(LIMITS_NOBODY)
    limits = {
        "producer_byte_rate": everything,
        "consumer_byte_rate": everything,
        "request_percentage": everything,
    }
    for number in range(2 * rounds):
        with_quotas = (number + number // 2) % 2 == 1
        set_quotas(http, "free", limits if with_quotas else {})
        before = processor_seconds(server.pid)
        [taken] = together(
            begun(flood, server.bootstrap_servers, "free", "fast", seconds, 0, BATCH_BYTES)
        )
        used = processor_seconds(server.pid) - before
        found[with_quotas].append((taken / seconds, taken / used))
    return found


def report(
    held: list[Held],
    alone: list[float],
    beside: list[float],
    cost: dict[bool, list[tuple[float, float]]],
    seconds: float,
) -> str:
    def median(values: list[float]) -> float:
        return statistics.median(values)

    produced = median([each.produced for each in held]) / QUOTA_BYTES
    consumed = median([each.consumed for each in held]) / QUOTA_BYTES
    quiet, busy = median(alone) * 1000, median(beside) * 1000
    rates = {on: median([each[0] for each in cost[on]]) for on in cost}
    work = {on: median([each[1] for each in cost[on]]) for on in cost}
    rows = [
        (f"A writes, by its quota, over {seconds:.0f} s", f"{produced:.3f}", "0.9 to 1.1"),
        (f"A reads, by its quota, over {seconds:.0f} s", f"{consumed:.3f}", "0.9 to 1.1"),
        ("B's p99 alone", f"{quiet:.2f} ms", ""),
        ("B's p99 beside A", f"{busy:.2f} ms, {busy / quiet:.2f} times", "at most 1.2 times"),
        ("throughput without quotas", f"{rates[False] / 1e6:.1f} MB/s", ""),
        (
            "throughput with quotas that limit nobody",
            f"{rates[True] / 1e6:.1f} MB/s, {rates[True] / rates[False]:.3f} times",
            "at least 0.98 times",
        ),
        (
            "the same per second of the broker's processor",
            f"{work[True] / work[False]:.3f} times",
            "at least 0.98 times",
        ),
    ]
    lines = ["| what | found | bar |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.quotas", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="of a round beside A")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cost-seconds", type=float, default=6.0)
    parser.add_argument("--cost-rounds", type=int, default=8)
    parser.add_argument("--out", type=Path, help="file to write the table to")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(Path(folder), "--set", "num.partitions=3") as server,
        httpx.Client(base_url=server.http_url, timeout=60) as http,
    ):
        neighbours = measure_neighbours(server, http, arguments.seconds, arguments.rounds)
        cost = measure_cost(server, http, arguments.cost_seconds, arguments.cost_rounds)
    table = report(*neighbours, cost, arguments.seconds)
    print(table)
    if arguments.out is not None:
        load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
        said = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} processors, load {load}"
        arguments.out.write_text(f"# Quotas\n\n{said}\n\n{table}\n")


if __name__ == "__main__":
    main()
