"""`python -m bench.quotas`: what quotas hold, what others notice of it, and what they cost.

Clients are librdkafka's, which ignore throttle times. A offers ten times its quota and reads a
backlog; B sends a small message now and then. A and B are clients by their names, and then tenants
whose users log in. Rounds with and without take turns, since machines are never the same twice.
A also runs at a second broker beside B: what B notices then comes from sharing the machine, and not
from sharing the broker.
Bars: A within 10 % of its quota over 30 s, B's p99 at most 1.2 times alone, throughput with quotas
that limit nobody at least 0.98 times that without.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Of each round: what A was held to, and the p99 of B alone, beside A, and with A elsewhere."""

    held: list[Held]
    alone: list[float]
    beside: list[float]
    elsewhere: list[float]


# Bytes per second, and per second of the broker's processor time, of each round; by whether there
# are quotas.
Cost = dict[bool, list[tuple[float, float]]]
# Settings of librdkafka: where the broker is, what it calls itself, how it logs in.
Client = dict[str, Any]


class Pair(NamedTuple):
    """A with its quota and B, at one broker."""

    a: Client
    b: Client


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


def measure_neighbours(here: Pair, there: Pair, seconds: float, rounds: int) -> Neighbours:
    """A has its quota and a backlog to read at both brokers; B is at the first."""
    found = Neighbours([], [], [], [])

    def b_beside(a: Client | None, latencies: list[float]) -> list[float]:
        load = load_of_a(a, seconds) if a else []
        *did, asked = together(*load, begun(ask, here.b, "of-b", seconds))
        latencies.append(p99(asked))
        return did

    turns = [(None, found.alone), (here.a, found.beside), (there.a, found.elsewhere)]
    for number in range(rounds):
        # None of them always comes first.
        first = number % len(turns)
        for a, latencies in turns[first:] + turns[:first]:
            did = b_beside(a, latencies)
            if a is here.a:
                found.held.append(Held(sum(did[:-1]) / seconds, did[-1] / seconds))
    return found


def load_backlog(who: Client) -> None:
    together(begun(flood, who, "backlog", BACKLOG_SECONDS, 0, 100_000))


@contextmanager
def broker_of_clients(folder: Path) -> Iterator[Pair]:
    with (
        ServerProcess(folder, "--set", "num.partitions=3") as server,
        httpx.Client(base_url=server.http_url, timeout=60) as http,
    ):
        load_backlog(client(server, "loader"))
        set_quotas(http, "a", LIMITS_OF_A)
        yield Pair(client(server, "a"), client(server, "b"))


@contextmanager
def broker_of_tenants(folder: Path) -> Iterator[Pair]:
    """Who logs in finds the topics of its tenant."""
    settings = {"num.partitions": "3", **security_settings(folder.with_suffix(".security"))}
    with (
        ServerProcess(folder, *set_options(settings)) as server,
        administration(server.http_url) as http,
    ):
        # Without limits until there is a backlog.
        users = [make_tenant(http, name, {}) for name in ("a", "b")]
        pair = Pair(*(client(server, "app", log_in(user)) for user in users))
        load_backlog(pair.a)
        http.patch("/tenants/a", json={"limits": LIMITS_OF_A}).raise_for_status()
        yield pair


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def measure_cost(folder: Path, seconds: float, rounds: int) -> Cost:
    """Batches are not large, so that there are many requests.

    Each round writes a topic of its own, deleted after it: gigabytes of earlier rounds would fill
    the page cache, and writing falls to half of its speed when that is full.
    """
    found: Cost = {False: [], True: []}
    names = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
    limits = dict.fromkeys(names, float(LIMITS_NOBODY))
    with (
        ServerProcess(folder, "--set", "num.partitions=3") as server,
        httpx.Client(base_url=server.http_url, timeout=60) as http,
    ):
        for number in range(2 * rounds):
            with_quotas = (number + number // 2) % 2 == 1
            set_quotas(http, "free", limits if with_quotas else {})
            before = processor_seconds(server.pid)
            topic = f"fast-{number}"
            [taken] = together(begun(flood, client(server, "free"), topic, seconds, 0, BATCH_BYTES))
            used = processor_seconds(server.pid) - before
            http.delete(f"/topics/{topic}").raise_for_status()
            found[with_quotas].append((taken / seconds, taken / used))
    return found


def neighbour_rows(who: str, found: Neighbours, seconds: float) -> Iterator[tuple[str, str, str]]:
    produced = statistics.median(each.produced for each in found.held) / QUOTA_BYTES
    consumed = statistics.median(each.consumed for each in found.held) / QUOTA_BYTES
    alone, beside, elsewhere = (
        statistics.median(each) * 1000 for each in (found.alone, found.beside, found.elsewhere)
    )
    yield f"{who}: A writes, by its quota, over {seconds:.0f} s", f"{produced:.3f}", "0.9 to 1.1"
    yield f"{who}: A reads, by its quota, over {seconds:.0f} s", f"{consumed:.3f}", "0.9 to 1.1"
    yield f"{who}: B's p99 alone", f"{alone:.2f} ms", ""
    times = f"{beside:.2f} ms, {beside / alone:.2f} times alone"
    yield f"{who}: B's p99 beside A", times, "at most 1.2 times"
    times = f"{elsewhere:.2f} ms, {elsewhere / alone:.2f} times alone"
    yield f"{who}: B's p99 with A at another broker", times, ""
    yield f"{who}: B's p99 beside A, by that", f"{beside / elsewhere:.2f} times", ""


def cost_rows(cost: Cost) -> Iterator[tuple[str, str, str]]:
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
        for who, broker in (("clients", broker_of_clients), ("tenants", broker_of_tenants)):
            with broker(folder / who) as here, broker(folder / f"{who}-elsewhere") as there:
                found = measure_neighbours(here, there, arguments.seconds, arguments.rounds)
            rows += neighbour_rows(who, found, arguments.seconds)
        rows += cost_rows(
            measure_cost(folder / "cost", arguments.cost_seconds, arguments.cost_rounds)
        )
    lines = ["| what | found | bar |", "|---|---|---|"]
    table = "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
    print(table)
    if arguments.out is not None:
        load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
        said = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} processors, load {load}"
        arguments.out.write_text(f"# Quotas\n\n{said}\n\n{table}\n")


if __name__ == "__main__":
    main()
