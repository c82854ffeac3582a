"""What TLS costs: `python -m bench.tls`.

Two brokers with their defaults, one of them with a certificate, driven by the C client in turns, in
an order that changes; with `--kafka` beside Apache Kafka. The client shares the machine with the
broker: by its own processor time one sees how much of the cost is not the broker's.
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.brokers.guarded import GuardedGoQueue
from bench.brokers.guarded_kafka import GuardedKafka
from bench.figures import Sample
from bench.guarded_rounds import Broker, Figures, in_turn, one_round, ratios
from bench.machine import describe_machine, keep_to_two_cores
from bench.rounds import say
from goqueue.model.client_security import ClientSecurity
from goqueue.server.tls.making import make_certificates

# Of throughput, in one run; the aim is 0.85.
BAR: Final = 0.75
SIZES: Final = (100, 1_000)


def certified(folder: Path) -> GuardedGoQueue:
    made = make_certificates(folder, ["127.0.0.1"])
    return GuardedGoQueue(
        "TLS",
        {"tls.certificate.file": str(made.broker), "tls.key.file": str(made.broker_key)},
        {"security.protocol": "ssl", "ssl.ca.location": str(made.ca)},
        ClientSecurity(tls=True, ca_file=str(made.ca)),
    )


class Pair(NamedTuple):
    """The same broker without and with TLS."""

    name: str
    plain: Broker
    tls: Broker


def rows(size: int, pair: Pair, found: Mapping[Broker, Figures]) -> Iterator[str]:
    plain, tls = found[pair.plain], found[pair.tls]
    both = ("produce", tls.produced, plain.produced), ("consume", tls.consumed, plain.consumed)
    for what, mine, base in both:
        each = ratios(mine, base)
        yield (
            f"| {pair.name} | {size} | {what} | {each.before:,.0f} | {each.now:,.0f} "
            f"| {each.speed:.2f} | {each.by_processor:.2f} | {client_ratio(mine, base):.2f} |"
        )


def client_ratio(tls: list[Sample], plain: list[Sample]) -> float:
    """What of its speed the client has left, by its own processor time."""
    return statistics.median(
        (a.client_cpu_s_per_million or 0) / (b.client_cpu_s_per_million or 1)
        for a, b in zip(plain, tls, strict=True)
    )


@contextmanager
def brokers(folder: Path, *, with_kafka: bool) -> Iterator[list[Pair]]:
    plain, tls = GuardedGoQueue("plain"), certified(folder / "certificates")
    with ExitStack() as running:
        for broker in (plain, tls):
            broker.start(folder / broker.name)
            running.callback(broker.stop)
        pairs = [Pair("GoQueue", plain, tls)]
        if with_kafka:
            kafka = GuardedKafka(folder / "certificates-of-kafka")
            (folder / "kafka").mkdir()
            kafka.start(folder / "kafka")
            running.callback(kafka.stop)
            pairs.append(Pair(kafka.name, *kafka.ports()))
        yield pairs


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tls", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=1_000, help="of messages in a round")
    parser.add_argument("--kafka", action="store_true", help="beside Apache Kafka")
    given = parser.parse_args()
    keep_to_two_cores()
    machine = describe_machine()
    print(f"{machine.processor}, load average before {machine.load_average_before}; bar {BAR}\n")
    print(
        "| broker | size | what | plain msg/s | TLS msg/s | ratio | by the broker's processor time "
        "| by the client's |"
    )
    print("|---|---:|---|---:|---:|---:|---:|---:|")
    with (
        tempfile.TemporaryDirectory(prefix="bench-tls-") as name,
        brokers(Path(name), with_kafka=given.kafka) as pairs,
    ):
        ways = [way for pair in pairs for way in (pair.plain, pair.tls)]
        for size in SIZES:
            found = {way: Figures() for way in ways}
            for turn in range(given.rounds + 1):
                # The first round warms up.
                for way in in_turn(ways, turn):
                    figures = found[way] if turn else None
                    one_round(way, size, given.megabytes * 1_000_000 // size, figures)
                say(f"  {size} B: round {turn} of {given.rounds}")
            for pair in pairs:
                print("\n".join(rows(size, pair, found)), flush=True)


if __name__ == "__main__":
    main()
