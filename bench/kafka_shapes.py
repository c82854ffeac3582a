"""Traffic of other shapes than few large streams: small requests, many readers, transactions.

Broker CPU per million messages is, where each message is a request, also microseconds per request.
"""

from collections.abc import Callable
from typing import Final

from bench.brokers.kafka_speaker import Fsync, KafkaSpeaker, run_throughput
from bench.figures import Row
from bench.profiles import HEADLINE, Profile
from bench.rounds import fresh_topic, measured, say, settle, take_turns

Brokers = tuple[KafkaSpeaker, ...]
# Section, label, unit.
AddRow = Callable[[str, str, str], Row]

REQUESTS: Final = "requests"
READERS: Final = "readers"
TRANSACTIONS: Final = "transactions"

# One at a time from a single client, and as many as keep a broker of one process busy.
CONNECTION_COUNTS: Final = (1, 8)
READER_COUNT: Final = 10
TRANSACTION_MESSAGES: Final = 10
_SIZE: Final = ("--size", "100")


def measure_shapes(brokers: Brokers, profile: Profile, add_row: AddRow) -> None:
    _requests(brokers, profile, add_row)
    _readers(brokers, profile, add_row)
    _transactions(brokers, profile, add_row)


def _requests(brokers: Brokers, profile: Profile, add_row: AddRow) -> None:
    """One message per request, and the next request of a connection only after the answer."""
    volume = ("--count", str(profile.requests), *_SIZE)
    for broker in brokers:
        # Unmeasured, as for throughput: the JVM has not compiled this path yet.
        say(f"  warm-up of requests: {broker.name}")
        with fresh_topic(broker, 1, Fsync.INTERVAL) as topic:
            run_throughput(broker, "requests", topic, *volume, "--clients", "8")
    for connections in CONNECTION_COUNTS:
        plural = "connection" if connections == 1 else "connections"
        row = add_row(REQUESTS, f"100 B, one a request, {connections} {plural}, acks=1", "msg/s")
        write = ("--clients", str(connections))
        read = ("--writers", str(connections))
        _written_and_read(brokers, profile, row, "requests", (*volume, *write), (*volume, *read))


def _readers(brokers: Brokers, profile: Profile, add_row: AddRow) -> None:
    """All read the whole topic, at the same time; their messages are added up."""
    volume = ("--count", str(profile.reader_messages), *_SIZE)
    row = add_row(READERS, f"100 B, {READER_COUNT} readers of 1 partition", "msg/s")

    def measure(broker: KafkaSpeaker) -> None:
        with fresh_topic(broker, 1, HEADLINE.fsync) as topic:
            run_throughput(broker, "produce", topic, *volume, "--set", "acks=1")
            settle()
            read = ("consume", topic, *volume, "--clients", str(READER_COUNT))
            row.add(broker.name, measured(broker, lambda: run_throughput(broker, *read)))

    take_turns(brokers, profile.repetitions, measure, row)


def _transactions(brokers: Brokers, profile: Profile, add_row: AddRow) -> None:
    """One producer; each transaction is committed before the next begins."""
    volume = (
        *("--count", str(profile.transactions * TRANSACTION_MESSAGES), *_SIZE),
        *("--transaction", str(TRANSACTION_MESSAGES)),
    )
    label = f"100 B, transactions of {TRANSACTION_MESSAGES}, 1 partition"
    row = add_row(TRANSACTIONS, label, "msg/s")
    write = (*volume, "--set", "transactional.id=bench", "--set", "linger.ms=0")
    _written_and_read(brokers, profile, row, "transactions", write, volume)


def _written_and_read(
    brokers: Brokers,
    profile: Profile,
    row: Row,
    mode: str,
    write: tuple[str, ...],
    read: tuple[str, ...],
) -> None:
    """Measured is the writing; reading compares every byte, and the order of each writer."""

    def measure(broker: KafkaSpeaker) -> None:
        with fresh_topic(broker, 1, Fsync.INTERVAL) as topic:
            settle()
            row.add(
                broker.name, measured(broker, lambda: run_throughput(broker, mode, topic, *write))
            )
            run_throughput(broker, "consume", topic, *read)

    take_turns(brokers, profile.repetitions, measure, row)
