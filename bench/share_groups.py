"""`python -m bench.share_groups`: a share group beside a RabbitMQ queue, in one run.

Both are full of messages first; then consumers empty them, acknowledging every message on its own.
Then a steady stream, and how long a message takes to its consumer.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

import msgspec
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from bench.artifacts import CACHE, Missing
from bench.brokers.goqueue import GoQueue
from bench.brokers.kafka_speaker import Fsync, run_throughput
from bench.brokers.rabbitmq_queue import RabbitMqQueue
from bench.child_process import BrokerFailed
from bench.figures import Sample
from bench.load_run import Finished, Latency, LoadFailed, Throughput, run_generator
from bench.machine import describe_machine, keep_to_two_cores, load_average
from bench.rounds import measured, say, settle

SIZE_BYTES: Final = 100
PARTITIONS: Final = 4
CONSUMERS: Final = 4
RATE_PER_S: Final = 5_000
GROUP: Final = "bench"
GROUPS_MAX: Final = 100
BAR_MESSAGES_PER_S: Final = 100_000
BAR_P99_MS: Final = 5.0
_groups = count(1)
_topics = count(1)

T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.share_groups", description=__doc__)
    parser.add_argument("--count", type=int, default=500_000, help="messages (%(default)s)")
    parser.add_argument("--seconds", type=int, default=10, help="of steady load (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of each broker (%(default)s)")
    parser.add_argument("--queue", choices=("classic", "quorum"), default="quorum")
    parser.add_argument(
        "--fsync",
        choices=("always", "interval"),
        default="always",
        help="GoQueue's, of messages and acknowledgements (%(default)s, as a quorum queue)",
    )
    arguments = parser.parse_args()
    keep_to_two_cores()
    print(msgspec.json.format(msgspec.json.encode(describe_machine())).decode())
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="share-", dir=CACHE) as folder:
            _compare(arguments, Path(folder))
    except (Missing, BrokerFailed, LoadFailed) as error:
        sys.exit(f"bench: {error}")
    print(f"load average after: {load_average()}")


def _compare(arguments: argparse.Namespace, folder: Path) -> None:
    ours, theirs = GoQueue(), RabbitMqQueue(arguments.queue)
    with ExitStack() as running:
        for broker in (ours, theirs):
            place = folder / broker.name.replace(" ", "-")
            place.mkdir()
            broker.start(place)
            running.callback(broker.stop)
        _prepare(ours, arguments.fsync)
        rates: dict[str, list[Sample]] = {ours.name: [], theirs.name: []}
        latencies: dict[str, list[Latency]] = {ours.name: [], theirs.name: []}
        for number in range(arguments.rounds):
            say(f"round {number + 1} of {arguments.rounds}")
            rates[ours.name].append(_drain_ours(ours, arguments.count))
            settle()
            theirs.fill(arguments.count, SIZE_BYTES)
            settle()
            rates[theirs.name].append(
                measured(theirs, lambda: theirs.drain(arguments.count, SIZE_BYTES, CONSUMERS))
            )
            settle()
            latencies[ours.name].append(_latency_of_ours(ours, arguments.seconds))
            settle()
            latencies[theirs.name].append(
                theirs.delivery_latency(SIZE_BYTES, RATE_PER_S, arguments.seconds)
            )
    print(f"{theirs.name} {theirs.version()}; {theirs.generator}")
    policy = "before the answer" if arguments.fsync == "always" else Fsync.INTERVAL
    print(f"fsync: {ours.name} {policy}; {theirs.name} {theirs.fsync}")
    _print_rates(rates, ours.name, theirs.name)
    _print_latencies(latencies, ours.name, theirs.name)


def _prepare(broker: GoQueue, fsync: str) -> None:
    """New groups begin at the start, so that the topic can be filled before they come."""
    settings = {(ResourceType.BROKER, "0"): ("topic.fsync.policy", fsync)}
    for number in range(1, GROUPS_MAX):
        settings[ResourceType.GROUP, f"{GROUP}-{number}"] = ("share.auto.offset.reset", "earliest")
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}", "log_level": 3})
    for (kind, name), (setting, value) in settings.items():
        entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(10)


@contextmanager
def _topic(broker: GoQueue, partitions: int) -> Iterator[str]:
    """With the broker's defaults, which `_prepare` has set."""
    topic = f"share-{next(_topics)}"
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}", "log_level": 3})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(10)
    yield topic
    admin.delete_topics([topic])[topic].result(10)


def _drain_ours(broker: GoQueue, messages: int) -> Sample:
    with _topic(broker, PARTITIONS) as topic:
        volume = ("--count", str(messages), "--size", str(SIZE_BYTES))
        run_throughput(broker, "produce", topic, *volume, "--set", "acks=1")
        settle()

        def drain() -> tuple[Throughput, Finished]:
            finished = _generate(
                broker, "consume", topic, "--count", str(messages), "--members", str(CONSUMERS)
            )
            result = msgspec.json.decode(finished.output, type=Throughput)
            result.check()
            return result, finished

        return measured(broker, drain)


def _latency_of_ours(broker: GoQueue, seconds: int) -> Latency:
    with _topic(broker, 1) as topic:
        pace = ("--rate", str(RATE_PER_S), "--seconds", str(seconds), "--size", str(SIZE_BYTES))
        finished = _generate(broker, "latency", topic, *pace)
        return msgspec.json.decode(finished.output, type=Latency)


def _generate(broker: GoQueue, mode: str, topic: str, *arguments: str) -> Finished:
    group = f"{GROUP}-{next(_groups)}"
    place = ("--port", str(broker.port), "--topic", topic, "--group", group)
    return run_generator([sys.executable, "-m", "bench.share_load", mode, *place, *arguments])


def _print_rates(rates: dict[str, list[Sample]], ours: str, theirs: str) -> None:
    print(f"\nconsume, every message acknowledged, {SIZE_BYTES} B, {CONSUMERS} consumers")
    for name, samples in rates.items():
        values = ", ".join(f"{sample.value:,.0f}" for sample in samples)
        cost = median(sample.broker_cpu_s_per_million or 0.0 for sample in samples)
        middle = _middle(samples, lambda sample: sample.value)
        print(f"  {name:24} {middle:>12,.0f} msg/s   ({values}; broker {cost:.2f} s CPU/million)")
    mine = _middle(rates[ours], lambda sample: sample.value)
    ratio = mine / _middle(rates[theirs], lambda sample: sample.value)
    print(
        f"  ratio {ratio:.2f}; bar {BAR_MESSAGES_PER_S:,} msg/s: {_met(mine >= BAR_MESSAGES_PER_S)}"
    )


def _print_latencies(latencies: dict[str, list[Latency]], ours: str, theirs: str) -> None:
    print(f"\ndelivery latency at {RATE_PER_S:,} msg/s, {SIZE_BYTES} B")
    for name, found in latencies.items():
        p50 = _middle(found, lambda latency: latency.latency_ms.p50)
        p99 = _middle(found, lambda latency: latency.latency_ms.p99)
        late = max(latency.generator_lag_max_ms for latency in found)
        note = f"   (generator late by up to {late:.1f} ms)" if late else ""
        print(f"  {name:24} p50 {p50:7.2f} ms   p99 {p99:7.2f} ms{note}")
    mine = _middle(latencies[ours], lambda latency: latency.latency_ms.p99)
    ratio = mine / _middle(latencies[theirs], lambda latency: latency.latency_ms.p99)
    print(f"  ratio of p99 {ratio:.2f}; bar {BAR_P99_MS:.0f} ms: {_met(mine < BAR_P99_MS)}")


def _middle(found: list[T], value: Callable[[T], float]) -> float:
    return median(value(item) for item in found)


def _met(is_met: bool) -> str:
    return "met" if is_met else "not met"


if __name__ == "__main__":
    main()
