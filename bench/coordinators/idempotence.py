"""What sequence numbers cost: the same load with and without, in turns."""

import statistics
from typing import Final

import msgspec

from bench.artifacts import kafka_load
from bench.bars import MET, NOT_MET, Bar
from bench.coordinators.broker_run import CpuMeter, create_topic, delete_topic, running_broker
from bench.load_run import Throughput, run_generator
from bench.rounds import say

# Enough that the half second that librdkafka takes to ask for its producer id hardly counts.
MESSAGES: Final = 10_000_000
ROUNDS: Final = 3
PARTITIONS: Final = 4
MAX_COST: Final = 0.15


def measure_idempotence() -> list[Bar]:
    rates: dict[str, list[float]] = {"false": [], "true": []}
    broker_s: dict[str, list[float]] = {"false": [], "true": []}
    with running_broker() as server:
        for number in range(ROUNDS):
            for idempotent in ("false", "true") if number % 2 else ("true", "false"):
                topic = f"idempotent-{idempotent}-{number}"
                create_topic(server, topic, PARTITIONS)
                meter = CpuMeter(server.pid)
                done = run_generator(
                    [
                        *(kafka_load(), "produce", "--brokers", server.bootstrap_servers),
                        *("--topic", topic, "--count", str(MESSAGES)),
                        *("--set", "acks=all", "--set", f"enable.idempotence={idempotent}"),
                        # Both with the five requests in flight that idempotence allows.
                        *("--set", "max.in.flight=5", "--set", "linger.ms=5"),
                    ]
                )
                found = msgspec.json.decode(done.output, type=Throughput)
                found.check()
                rates[idempotent].append(found.messages / found.seconds)
                broker_s[idempotent].append(meter.seconds())
                delete_topic(server, topic)
    plain, sequenced = (statistics.median(rates[key]) for key in ("false", "true"))
    plain_s, sequenced_s = (statistics.median(broker_s[key]) for key in ("false", "true"))
    cost = 1 - sequenced / plain
    say(f"    {plain:,.0f} messages/s without, {sequenced:,.0f} with sequence numbers")
    return [
        Bar(
            f"idempotent produce, {MESSAGES:,} messages of 100 bytes, median of {ROUNDS}",
            f"costs below {MAX_COST:.0%}",
            f"{cost:.1%} ({plain:,.0f} and {sequenced:,.0f} messages/s); processor time of the "
            f"broker {sequenced_s / plain_s - 1:+.1%}",
            MET if cost < MAX_COST else NOT_MET,
        )
    ]
