"""Delayed messages with a million pending: `python -m bench.delays`.

In one process, without a network: what the broker itself takes to schedule, hold, recover and
deliver. Messages are 100 bytes. Due times are random, so that messages that lie side by side in the
log fall due far apart. Lateness is from a message's due time to when a reader of its topic has it.
"""

import argparse
import asyncio
import dataclasses
import gc
import json
import random
import shutil
import statistics
import tempfile
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.machine import Machine, describe_machine, keep_to_two_cores
from goqueue.broker.node import Node
from goqueue.model.batch import iterate_batches
from goqueue.model.broker_config import broker_config
from goqueue.model.caller import ANONYMOUS, Caller, Door
from goqueue.model.log import FetchPart, Isolation
from goqueue.model.records import NewRecord, decode_records
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService
from goqueue.state.delays.pending import Entry, PendingTable
from goqueue.state.delays.records import TargetKey

RESULTS: Final = Path(__file__).parent / "results"
TOPIC: Final = "later"
_BENCH: Final = Caller(principal=ANONYMOUS, door=Door.HTTP)
PARTITIONS: Final = 4
VALUE_BYTES: Final = 100
# As many as a Kafka batch or an HTTP request has.
MESSAGES_PER_CALL: Final = 1_000
CALLS_AT_ONCE: Final = 8
HOUR_MS: Final = 3_600_000
LATENESS_BAR_MS: Final = 50
BYTES_BAR: Final = 200


@dataclasses.dataclass(slots=True)
class Figures:
    fsync_policy: str
    pending: int = 0
    bytes_per_entry: float = 0
    inserts_per_s: float = 0
    restart_clean_s: float = 0
    restart_crash_s: float = 0
    due_per_s: int = 0
    delivered: int = 0
    lateness_p50_ms: float = 0
    lateness_p99_ms: float = 0
    lateness_max_ms: float = 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.delays", description=__doc__)
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=10_000, help="messages that fall due per s")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--fsync", nargs="*", default=["interval", "always"])
    parser.add_argument("--save", action="store_true", help="keep the table in bench/results")
    given = parser.parse_args()
    keep_to_two_cores()
    machine = describe_machine()
    entry_bytes = measure_entry_bytes(given.pending)
    results = []
    for policy in given.fsync:
        with tempfile.TemporaryDirectory(prefix="bench-delays-") as folder:
            figures = Figures(policy, given.pending, entry_bytes, due_per_s=given.rate)
            asyncio.run(measure(Path(folder), figures, given.seconds))
            results.append(figures)
            print(json.dumps(dataclasses.asdict(figures)), flush=True)
    text = render(machine, results)
    print(text)
    if given.save:
        path = RESULTS / f"{datetime.now(UTC):%Y-%m-%d-%H%M}-delays.md"
        path.write_text(text)
        print(f"written to {path}")


def measure_entry_bytes(count: int) -> float:
    """What an entry takes in the wheel, with all that belongs to it."""
    dice = random.Random(1)
    now_ms = 1_800_000_000_000
    due_times_ms = [now_ms + dice.randrange(2 * HOUR_MS) for _ in range(count)]
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    table = PendingTable(now_ms)
    for number, due_ms in enumerate(due_times_ms):
        table.add(Entry(number, due_ms, number % PARTITIONS, number, VALUE_BYTES))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(table) == count
    return (after - before) / count


async def measure(folder: Path, figures: Figures, seconds: int) -> None:
    data = folder / "data"
    broker = await open_broker(data, figures.fsync_policy)
    await BrokerService(broker).topics.create(_BENCH, NewTopic(name=TOPIC, partitions=PARTITIONS))
    topic = broker.topic(TOPIC)
    for index in range(PARTITIONS):
        await broker.delays.shards.of(TargetKey(topic.id, index))
    # As the server does once it has started.
    gc.freeze()
    dice = random.Random(2)
    started = time.perf_counter()
    now_ms = broker.clock_ms()
    await schedule(
        broker, [now_ms + HOUR_MS + dice.randrange(HOUR_MS) for _ in range(figures.pending)]
    )
    figures.inserts_per_s = figures.pending / (time.perf_counter() - started)

    crashed = folder / "crashed"
    shutil.copytree(data, crashed)
    figures.restart_crash_s = await restart(crashed, figures)
    await broker.close()
    started = time.perf_counter()
    broker = await open_broker(data, figures.fsync_policy)
    figures.restart_clean_s = time.perf_counter() - started
    assert (await BrokerService(broker).delays.stats(_BENCH)).pending == figures.pending

    begin_ms = broker.clock_ms() + 6_000
    count = figures.due_per_s * seconds
    due_times_ms = [begin_ms + dice.randrange(seconds * 1_000) for _ in range(count)]
    reading = asyncio.create_task(read_lateness(broker, count))
    await schedule(broker, due_times_ms)
    assert broker.clock_ms() < begin_ms, "scheduling took longer than the time before the first"
    lateness_ms = await asyncio.wait_for(reading, seconds * 4 + 60)
    figures.delivered = len(lateness_ms)
    cuts = statistics.quantiles(lateness_ms, n=100, method="inclusive")
    figures.lateness_p50_ms = round(cuts[49], 1)
    figures.lateness_p99_ms = round(cuts[98], 1)
    figures.lateness_max_ms = round(max(lateness_ms), 1)
    await broker.close()


async def restart(folder: Path, figures: Figures) -> float:
    """The start of a broker on what a killed one left."""
    (folder / "lock").unlink(missing_ok=True)
    started = time.perf_counter()
    broker = await open_broker(folder, figures.fsync_policy)
    elapsed = time.perf_counter() - started
    assert (await BrokerService(broker).delays.stats(_BENCH)).pending == figures.pending
    await broker.close()
    shutil.rmtree(folder)
    return elapsed


async def open_broker(folder: Path, policy: str) -> Node:
    texts = {"data.dir": str(folder), "topic.fsync.policy": policy}
    return await Node.open(broker_config(texts))


async def schedule(broker: Node, due_times_ms: list[int]) -> None:
    """As clients would: calls of many messages, some of them at the same time."""
    publishing = BrokerService(broker).publishing

    async def call(start: int) -> None:
        due = due_times_ms[start : start + MESSAGES_PER_CALL]
        padding = b"." * (VALUE_BYTES - 13)
        records = [NewRecord(value=b"%d" % due_ms + padding) for due_ms in due]
        partitions = [start // MESSAGES_PER_CALL % PARTITIONS] * len(records)
        await publishing.publish(_BENCH, TOPIC, records, due, partitions=partitions)

    step = MESSAGES_PER_CALL * CALLS_AT_ONCE
    for start in range(0, len(due_times_ms), step):
        ends = range(start, min(start + step, len(due_times_ms)), MESSAGES_PER_CALL)
        await asyncio.gather(*(call(each) for each in ends))


async def read_lateness(broker: Node, count: int) -> list[float]:
    """A consumer of the topic that notes when it has each message."""
    offsets = [0] * PARTITIONS
    lateness_ms: list[float] = []
    while len(lateness_ms) < count:
        wanted = [FetchPart(TOPIC, p, offsets[p], 1 << 20) for p in range(PARTITIONS)]
        parts = await BrokerService(broker).log.fetch(
            _BENCH,
            wanted,
            max_wait_ms=1_000,
            min_bytes=1,
            max_bytes=1 << 24,
            isolation=Isolation.READ_UNCOMMITTED,
        )
        now_ms = time.time() * 1000
        for part in parts:
            view = memoryview(part.data)
            for position, header in iterate_batches(part.data):
                offsets[part.index] = header.next_offset
                for record in decode_records(view[position : position + header.size_bytes]):
                    assert record.value is not None
                    lateness_ms.append(now_ms - int(record.value[:13]))
    return lateness_ms


def render(machine: Machine, results: list[Figures]) -> str:
    lines = [
        f"# Delayed messages: {results[0].pending:,} pending, {VALUE_BYTES} bytes each",
        "",
        *(
            f"- {name.replace('_', ' ')}: {value}"
            for name, value in dataclasses.asdict(machine).items()
        ),
        "",
        "Due times are random; clients schedule 1,000 messages per call, 8 calls at a time.",
        "",
        "| fsync.policy | scheduled/s | bytes each in the wheel | restart clean / killed "
        f"| due/s | late p50 / p99 / max | p99 < {LATENESS_BAR_MS} ms, < {BYTES_BAR} bytes |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in results:
        met = each.lateness_p99_ms < LATENESS_BAR_MS and each.bytes_per_entry < BYTES_BAR
        lines.append(
            f"| {each.fsync_policy} | {each.inserts_per_s:,.0f} | {each.bytes_per_entry:.0f} "
            f"| {each.restart_clean_s:.1f} s / {each.restart_crash_s:.1f} s | {each.due_per_s:,} "
            f"| {each.lateness_p50_ms} / {each.lateness_p99_ms} / {each.lateness_max_ms} ms "
            f"| {'yes' if met else 'no'} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
