"""`python -m bench.metrics_scrape`: what a scrape costs, and for how long it holds others up.

A broker in this process with many partitions and groups is scraped while a task asks for a turn
every millisecond. The bar is 50 ms for the longest wait.
"""

import argparse
import asyncio
import sys
import tempfile
from time import perf_counter
from typing import Final

import uvloop

from goqueue.broker.node import Node
from goqueue.doors.http.metrics import Exposition
from goqueue.doors.http.traffic import Traffic
from goqueue.model.broker_config import broker_config
from goqueue.model.caller import ANONYMOUS, Caller, Door
from goqueue.model.groups.messages import OffsetCommit, OffsetToCommit
from goqueue.model.queues.receiving import Receive
from goqueue.model.records import NewRecord
from goqueue.model.topics import NewTopic
from goqueue.service.broker_service import BrokerService

TOPIC: Final = "wide"
PARTITIONS_PER_GROUP: Final = 50
SCRAPES: Final = 10
TURN_SECONDS: Final = 0.001
WAIT_MAX_SECONDS: Final = 0.05
# The broker flushes everything a second after it was written; that is not what is measured.
SETTLE_SECONDS: Final = 3.0
_SCRAPER: Final = Caller(principal=ANONYMOUS, door=Door.HTTP)


async def fill(broker: Node, partitions: int, groups: int) -> None:
    await BrokerService(broker).topics.create(_SCRAPER, NewTopic(name=TOPIC, partitions=partitions))
    publishing = BrokerService(broker).publishing
    for index in range(partitions):
        records = [NewRecord(value=b"x")] * 3
        await publishing.publish(_SCRAPER, TOPIC, records, partitions=[index] * 3)
    for number in range(groups):
        offsets = tuple(
            OffsetToCommit(topic=TOPIC, partition=(number * 5 + each) % partitions, offset=1)
            for each in range(min(PARTITIONS_PER_GROUP, partitions))
        )
        commit = OffsetCommit(group_id=f"group-{number}", offsets=offsets)
        await BrokerService(broker).groups.commit(_SCRAPER, commit)
    # The first poll of a group makes its queues.
    first_poll = Receive(max_messages=1, lease_ms=1, start="earliest")
    await BrokerService(broker).queues.receive(_SCRAPER, "workers", TOPIC, first_poll)


async def longest_wait(waits: list[float]) -> None:
    """Add how much later than asked each turn came."""
    while True:
        asked = perf_counter()
        await asyncio.sleep(TURN_SECONDS)
        waits.append(perf_counter() - asked - TURN_SECONDS)


async def measure(partitions: int, groups: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        broker = await Node.open(broker_config({"data.dir": folder}))
        await fill(broker, partitions, groups)
        await asyncio.sleep(SETTLE_SECONDS)
        exposition = Exposition(BrokerService(broker), Traffic([]))
        waits: list[float] = []
        longest = 0.0
        waiting = asyncio.create_task(longest_wait(waits))
        for _ in range(SCRAPES):
            waits.clear()
            started = perf_counter()
            text = await exposition.render(_SCRAPER)
            seconds = perf_counter() - started
            longest = max(longest, *waits)
            lines = text.count(b"\n")
            print(
                f"{lines} lines in {seconds * 1e3:.0f} ms, longest wait {max(waits) * 1e3:.1f} ms"
            )
        waiting.cancel()
        await broker.close()
        return longest


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.metrics_scrape", description=__doc__)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=200)
    arguments = parser.parse_args()
    longest = uvloop.run(measure(arguments.partitions, arguments.groups))
    if longest > WAIT_MAX_SECONDS:
        sys.exit(f"others waited for {longest * 1e3:.0f} ms; the bar is {WAIT_MAX_SECONDS * 1e3:g}")


if __name__ == "__main__":
    main()
