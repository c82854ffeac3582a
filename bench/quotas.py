"""`python -m bench.quotas`: what quotas hold, what others notice of it, and what they cost.

Clients are librdkafka's, which ignore throttle times. A offers ten times its quota and reads a
backlog; B sends a small message now and then. A and B are clients by their names, and then tenants
whose users log in. Rounds with and without take turns, since machines are never the same twice.
Bars: A within 10 % of its quota over 30 s, B's p99 at most 1.2 times alone, throughput with quotas
that limit nobody at least 0.98 times that without.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
from confluent_kafka import Consumer, KafkaError, Message, Producer

from bench.brokers.guarded import set_options
from bench.secured_broker import administration, log_in, make_tenant, security_settings
from bench.together import Begun, begun, together
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
LIMITS_OF_A: Final = {
    "producer_byte_rate": float(QUOTA_BYTES),
    "consumer_byte_rate": float(QUOTA_BYTES),
}
# Far more than A may read in all rounds.
BACKLOG_SECONDS: Final = 8.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Held(NamedTuple):
    produced: float
    consumed: float


class Neighbours(NamedTuple):
    """Of each round: what A was held to, and the p99 of B alone and beside A."""

    held: list[Held]
    alone: list[float]
    beside: list[float]


# Settings of librdkafka: where the broker is, what it calls itself, how it logs in.
Client = dict[str, Any]


def client(server: ServerProcess, client_id: str, log_in: Client | None = None) -> Client:
    where = {"bootstrap.servers": server.bootstrap_servers, "client.id": client_id}
    return {**where, "log_level": 2, **(log_in or {})}


def flood(who: Client, topic: str, seconds: float, rate: float, batch_bytes: int) -> float:
    """Offer `rate` bytes per second (0: what it can); returns those that were acknowledged."""
    batches = {"batch.size": batch_bytes, "linger.ms": 5, "queue.buffering.max.kbytes": 20_000}
    producer = Producer({**who, **batches})
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


def read(who: Client, topic: str, seconds: float) -> float:
    """Bytes that came within the time."""
    consumer = Consumer({**who, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    began, got = 0.0, 0
    while not began or time.monotonic() < began + seconds:
        for message in consumer.consume(1_000, 0.1):
            began = began or time.monotonic()
            got += len(message.value() or b"")
    return float(got)


def ask(who: Client, topic: str, seconds: float) -> list[float]:
    """B: how long each small message takes to be acknowledged."""
    producer = Producer({**who, "linger.ms": 0})
    latencies: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        producer.produce(topic, b"x" * SMALL_BYTES)
        producer.flush()
        latencies.append(time.perf_counter() - began)
        time.sleep(PAUSE_SECONDS)
    return latencies[len(latencies) // 10 :]


def set_quotas(http: httpx.Client, client_id: str, values: dict[str, float]) -> None:
    names = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
    gone = [name for name in names if name not in values]
    change = {"clientId": client_id, "set": values, "remove": gone}
    http.patch("/quotas", json={"changes": [change]}).raise_for_status()


def p99(latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=100)[98]


def load_of_a(who: Client, seconds: float) -> list[Begun]:
    each = OFFERED * QUOTA_BYTES / PRODUCERS
    writers = [begun(flood, who, "of-a", seconds, each, 100_000) for _ in range(PRODUCERS)]
    return [*writers, begun(read, who, "backlog", seconds)]


def measure_neighbours(a: Client, b: Client, seconds: float, rounds: int) -> Neighbours:
    """A has its quota, and a backlog to read."""
    found = Neighbours([], [], [])
    for _ in range(rounds):
        [quiet] = together(begun(ask, b, "of-b", seconds))
        *written, got, busy = together(*load_of_a(a, seconds), begun(ask, b, "of-b", seconds))
        found.held.append(Held(sum(written) / seconds, got / seconds))
        found.alone.append(p99(quiet))
        found.beside.append(p99(busy))
    return found


def load_backlog(who: Client) -> None:
    together(begun(flood, who, "backlog", BACKLOG_SECONDS, 0, 100_000))


def measure_clients(
    server: ServerProcess, http: httpx.Client, given: argparse.Namespace
) -> Neighbours:
    load_backlog(client(server, "loader"))
    set_quotas(http, "a", LIMITS_OF_A)
    found = measure_neighbours(
        client(server, "a"), client(server, "b"), given.seconds, given.rounds
    )
    set_quotas(http, "a", {})
    return found


def measure_tenants(folder: Path, given: argparse.Namespace) -> Neighbours:
    """At a broker of its own: who logs in finds the topics of its tenant."""
    settings = {"num.partitions": "3", **security_settings(folder / "security")}
    with (
        ServerProcess(folder / "tenants", *set_options(settings)) as server,
        administration(server.http_url) as http,
    ):
        # Without limits until there is a backlog.
        users = [make_tenant(http, name, {}) for name in ("a", "b")]
        a, b = (client(server, "app", log_in(user)) for user in users)
        load_backlog(a)
        http.patch("/tenants/a", json={"limits": LIMITS_OF_A}).raise_for_status()
        return measure_neighbours(a, b, given.seconds, given.rounds)


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
        [taken] = together(begun(flood, client(server, "free"), "fast", seconds, 0, BATCH_BYTES))
        used = processor_seconds(server.pid) - before
        found[with_quotas].append((taken / seconds, taken / used))
    return found


def neighbour_rows(who: str, found: Neighbours, seconds: float) -> Iterator[tuple[str, str, str]]:
    produced = statistics.median(each.produced for each in found.held) / QUOTA_BYTES
    consumed = statistics.median(each.consumed for each in found.held) / QUOTA_BYTES
    quiet, busy = statistics.median(found.alone) * 1000, statistics.median(found.beside) * 1000
    yield f"{who}: A writes, by its quota, over {seconds:.0f} s", f"{produced:.3f}", "0.9 to 1.1"
    yield f"{who}: A reads, by its quota, over {seconds:.0f} s", f"{consumed:.3f}", "0.9 to 1.1"
    yield f"{who}: B's p99 alone", f"{quiet:.2f} ms", ""
    times = f"{busy:.2f} ms, {busy / quiet:.2f} times"
    yield f"{who}: B's p99 beside A", times, "at most 1.2 times"


def cost_rows(cost: dict[bool, list[tuple[float, float]]]) -> Iterator[tuple[str, str, str]]:
    rates = {on: statistics.median(each[0] for each in cost[on]) for on in cost}
    work = {on: statistics.median(each[1] for each in cost[on]) for on in cost}
    yield "throughput without quotas", f"{rates[False] / 1e6:.1f} MB/s", ""
    yield (
        "throughput with quotas that limit nobody",
        f"{rates[True] / 1e6:.1f} MB/s, {rates[True] / rates[False]:.3f} times",
        "at least 0.98 times",
    )
    yield (
        "the same per second of the broker's processor",
        f"{work[True] / work[False]:.3f} times",
        "at least 0.98 times",
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.quotas", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="of a round beside A")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cost-seconds", type=float, default=6.0)
    parser.add_argument("--cost-rounds", type=int, default=8)
    parser.add_argument("--out", type=Path, help="file to write the table to")
    arguments = parser.parse_args()
    rows: list[tuple[str, str, str]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            ServerProcess(folder / "data", "--set", "num.partitions=3") as server,
            httpx.Client(base_url=server.http_url, timeout=60) as http,
        ):
            clients = measure_clients(server, http, arguments)
            rows += neighbour_rows("clients", clients, arguments.seconds)
            cost = measure_cost(server, http, arguments.cost_seconds, arguments.cost_rounds)
        tenants = measure_tenants(folder, arguments)
        rows += neighbour_rows("tenants", tenants, arguments.seconds)
        rows += cost_rows(cost)
    lines = ["| what | found | bar |", "|---|---|---|"]
    table = "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
    print(table)
    if arguments.out is not None:
        load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
        said = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} processors, load {load}"
        arguments.out.write_text(f"# Quotas\n\n{said}\n\n{table}\n")


if __name__ == "__main__":
    main()
