"""What TLS costs: `python -m bench.tls`.

Two brokers with their defaults, one of them with a certificate, driven by the C client in turns, in
an order that changes.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Final

from bench.brokers.guarded import GuardedGoQueue
from bench.figures import Sample
from bench.guarded_rounds import Figures, in_turn, one_round, ratios
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


def row(size: int, what: str, tls: list[Sample], plain: list[Sample]) -> str:
    found = ratios(tls, plain)
    return (
        f"| {size} | {what} | {found.before:,.0f} | {found.now:,.0f} "
        f"| {found.speed:.2f} | {found.by_processor:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tls", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=1_000, help="of messages in a round")
    given = parser.parse_args()
    keep_to_two_cores()
    machine = describe_machine()
    print(f"{machine.processor}, load average before {machine.load_average_before}; bar {BAR}\n")
    print("| size | what | plain msg/s | TLS msg/s | ratio | by processor time |")
    print("|---:|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="bench-tls-") as name:
        folder = Path(name)
        brokers = GuardedGoQueue("plain"), certified(folder / "certificates")
        try:
            for broker in brokers:
                broker.start(folder / broker.name)
            for size in SIZES:
                found = {broker.name: Figures() for broker in brokers}
                for turn in range(given.rounds + 1):
                    # The first round warms up.
                    for broker in in_turn(brokers, turn):
                        figures = found[broker.name] if turn else None
                        one_round(broker, size, given.megabytes * 1_000_000 // size, figures)
                    say(f"  {size} B: round {turn} of {given.rounds}")
                plain, tls = found["plain"], found["TLS"]
                print(row(size, "produce", tls.produced, plain.produced), flush=True)
                print(row(size, "consume", tls.consumed, plain.consumed), flush=True)
        finally:
            for broker in brokers:
                if broker.port:
                    broker.stop()


if __name__ == "__main__":
    main()
