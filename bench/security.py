"""What log-ins, rules and quotas cost together: `python -m bench.security`.

Two brokers with their defaults, driven by the C client in turns, in an order that changes. One has
security off. At the other the client logs in by SCRAM, is allowed what it does by a few of a
thousand rules, and has quotas that do not limit it. Without TLS, which has a bench of its own.
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.brokers.guarded import GuardedGoQueue
from bench.brokers.kafka_speaker import SHORT_LINGER, run_latency
from bench.guarded_rounds import Figures, Ratios, in_turn, one_round, ratios, topic_at
from bench.machine import describe_machine, keep_to_two_cores, load_average
from bench.rounds import say, settle
from bench.secured_broker import PASSWORD, administration, log_in, security_settings
from goqueue.model.client_security import SCRAM_SHA_256, ClientSecurity

THROUGHPUT_BAR: Final = 0.98
P99_BAR: Final = 1.05
SIZES: Final = (100, 1_000)
USER: Final = "bench"
# Besides the ones that count.
OTHER_RULES: Final = 1_000
RULES_AT_ONCE: Final = 100
LIMITS_NOBODY: Final = 10**12
# Of small messages, when latency is measured.
RATE_PER_S: Final = 1_000

_OFF: Final = "off"
_ON: Final = "on"


class Secured(GuardedGoQueue):
    def __init__(self, folder: Path) -> None:
        super().__init__(
            _ON,
            security_settings(folder),
            log_in(USER),
            ClientSecurity(mechanism=SCRAM_SHA_256, username=USER, password=PASSWORD),
        )

    def start(self, folder: Path) -> None:
        super().start(folder)
        with administration(f"http://127.0.0.1:{self.http_port}") as http:
            user = {"name": USER, "password": PASSWORD}
            http.post("/users", json=user).raise_for_status()
            rules = [*other_rules(), *own_rules()]
            for first in range(0, len(rules), RULES_AT_ONCE):
                some = rules[first : first + RULES_AT_ONCE]
                http.post("/rules", json={"rules": some}).raise_for_status()
            names = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
            change = {"user": USER, "set": {name: float(LIMITS_NOBODY) for name in names}}
            http.patch("/quotas", json={"changes": [change]}).raise_for_status()


def own_rules() -> Iterator[dict[str, str]]:
    mine = {"principal": f"User:{USER}", "host": "*", "permission": "allow"}
    for verb in ("create", "delete", "describe", "read", "write"):
        topics = {"resource": "topic", "name": "bench-", "pattern": "prefixed"}
        yield {**mine, **topics, "operation": verb}
    groups = {"resource": "group", "name": "*", "pattern": "literal"}
    yield {**mine, **groups, "operation": "read"}


def other_rules() -> Iterator[dict[str, str]]:
    """Of a hundred users, half of them for names that begin in some way."""
    for number in range(OTHER_RULES):
        yield {
            "resource": "topic",
            "name": f"topic-{number}",
            "pattern": "prefixed" if number % 2 else "literal",
            "principal": f"User:user-{number % 100}",
            "host": "*",
            "operation": "read",
            "permission": "allow",
        }


def measure_throughput(
    brokers: Sequence[GuardedGoQueue], size: int, rounds: int, megabytes: int
) -> dict[str, Figures]:
    found = {broker.name: Figures() for broker in brokers}
    for turn in range(rounds + 1):
        # The first round warms up.
        for broker in in_turn(brokers, turn):
            figures = found[broker.name] if turn else None
            one_round(broker, size, megabytes * 1_000_000 // size, figures)
        say(f"  {size} B: round {turn} of {rounds}")
    return found


def measure_latency(
    brokers: Sequence[GuardedGoQueue], mode: str, rounds: int, seconds: int
) -> dict[str, list[float]]:
    """The p99 of each round, in milliseconds."""
    found: dict[str, list[float]] = {broker.name: [] for broker in brokers}
    pace = ("--size", "100", "--rate", str(RATE_PER_S), "--seconds", str(seconds))
    for turn in range(rounds):
        for broker in in_turn(brokers, turn):
            with topic_at(broker) as topic:
                settle()
                options = (*pace, *broker.client_options, "--set", "acks=1", *SHORT_LINGER)
                latency = run_latency(broker, mode, topic, *options)
            found[broker.name].append(latency.latency_ms.p99)
        say(f"  {mode}: round {turn + 1} of {rounds}")
    return found


def throughput_row(size: int, what: str, found: Ratios) -> str:
    verdict = "held" if min(found.speed, found.by_processor) >= THROUGHPUT_BAR else "missed"
    return (
        f"| {what}, {size} B | {found.before:,.0f} msg/s | {found.now:,.0f} msg/s "
        f"| {found.speed:.3f} | {found.by_processor:.3f} | at least {THROUGHPUT_BAR}: {verdict} |"
    )


def latency_row(mode: str, found: dict[str, list[float]]) -> str:
    before, now = statistics.median(found[_OFF]), statistics.median(found[_ON])
    ratio = statistics.median(on / off for on, off in zip(found[_ON], found[_OFF], strict=True))
    verdict = "held" if ratio <= P99_BAR else "missed"
    return (
        f"| {mode}, p99 at {RATE_PER_S:,} msg/s | {before:.2f} ms | {now:.2f} ms "
        f"| {ratio:.3f} | | at most {P99_BAR}: {verdict} |"
    )


def measured_rows(brokers: Sequence[GuardedGoQueue], given: argparse.Namespace) -> Iterator[str]:
    yield "| what | off | on | ratio | by processor time | bar |"
    yield "|---|---:|---:|---:|---:|---|"
    for size in SIZES:
        found = measure_throughput(brokers, size, given.rounds, given.megabytes)
        off, on = found[_OFF], found[_ON]
        yield throughput_row(size, "produce", ratios(on.produced, off.produced))
        yield throughput_row(size, "consume", ratios(on.consumed, off.consumed))
    for mode in ("publish-latency", "end-to-end"):
        paced = measure_latency(brokers, mode, given.latency_rounds, given.latency_seconds)
        yield latency_row(mode, paced)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.security", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    # Of shorter ones much is the start of the client.
    parser.add_argument("--megabytes", type=int, default=600, help="of messages in a round")
    parser.add_argument("--latency-rounds", type=int, default=7)
    parser.add_argument("--latency-seconds", type=int, default=20)
    parser.add_argument("--out", type=Path, help="file to write the table to")
    given = parser.parse_args()
    keep_to_two_cores()
    machine = describe_machine()
    lines = []
    with tempfile.TemporaryDirectory(prefix="bench-security-") as name, ExitStack() as running:
        folder = Path(name)
        brokers = GuardedGoQueue(_OFF), Secured(folder / "security")
        for broker in brokers:
            running.callback(_stop, broker)
            broker.start(folder / broker.name)
        for line in measured_rows(brokers, given):
            print(line, flush=True)
            lines.append(line)
    said = (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine.processor}, {machine.cores_used} cores, "
        f"load average {machine.load_average_before} before and {load_average()} after; rounds of "
        f"{given.megabytes} MB"
    )
    print(f"\n{said}")
    if given.out is not None:
        table = "\n".join(lines)
        given.out.write_text(f"# Log-ins, rules and quotas\n\n{said}\n\n{table}\n")


def _stop(broker: GuardedGoQueue) -> None:
    if broker.port:
        broker.stop()


if __name__ == "__main__":
    main()
