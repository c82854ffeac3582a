"""Makes `earlier.tar.xz`: a data directory of a release before companions, which was killed.

    PYTHONPATH=<a checkout of f3911d45>/src:. python -m tests.upgrades.make_earlier_data

Queue state and delayed messages of all topics are in `__queue_state` and `__delayed` there. What a
later release must find in it is in `expected.json`, beside the data.
"""

import asyncio
import json
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from goqueue.broker.delays import delivery
from goqueue.broker.delays.intake import take_delayed
from goqueue.broker.node import Node
from goqueue.broker.partitions.admission import admit
from goqueue.broker.partitions.intake import Admitted
from goqueue.broker.partitions.partition import Partition
from goqueue.model.broker_config import broker_config
from goqueue.model.decoding_bounds import ON_LOOP_BOUNDS
from goqueue.model.errors import RequestTimedOut
from goqueue.model.names import topic_partition
from goqueue.model.queues.delivery import Delivery
from goqueue.model.queues.fifo import FifoMessage
from goqueue.model.queues.messages import AckAction
from goqueue.model.queues.receiving import Receive
from goqueue.model.queues.settling import Settlement
from goqueue.model.queues.sqs_headers import DEDUPLICATION_ID, GROUP_ID, MESSAGE_ID
from goqueue.model.queues.sqs_queue import SQS_GROUP
from goqueue.model.records import NewRecord, encode_records
from goqueue.model.rights import WritableTopic
from goqueue.model.topics import NewTopic
from goqueue.model.transactions.messages import AddPartitions, InitProducerId
from goqueue.service.broker_service import BrokerService
from tests.callers import ANYONE

ARCHIVE = Path(__file__).with_name("earlier.tar.xz")
START_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
PRODUCER = 4_711
ORDERS, JOBS, GONE, STEPS = "orders", "jobs", "gone", "steps.fifo"


class Clock:
    now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


class World:
    def __init__(self, broker: Node, clock: Clock) -> None:
        self.broker = broker
        self.clock = clock
        self.service = BrokerService(broker)
        self.expected: dict[str, Any] = {}

    async def fill(self) -> None:
        for name, partitions in ((ORDERS, 3), (JOBS, 2), (GONE, 1)):
            await self.service.topics.create(ANYONE, NewTopic(name=name, partitions=partitions))
        await self._jobs()
        await self._steps()
        await self._orders()
        await self._unfinished()
        await self._gone()

    # --- queues ---------------------------------------------------------------------------

    async def _jobs(self) -> None:
        values = [f"j{number}" for number in range(40)]
        await self._publish(JOBS, values)
        taken = await self._take("workers", JOBS, 30)
        done = {value for value in taken if int(value[1:]) % 2 == 0}
        dead = set(sorted(taken.keys() - done)[:2])
        later = set(sorted(taken.keys() - done)[2:4])
        await self._settle("workers", taken, done, AckAction.ACCEPT)
        await self._settle("workers", taken, dead, AckAction.REJECT)
        await self._settle("workers", taken, later, AckAction.RETRY, 600_000)
        while "jobs.dlq" not in self.broker.image.topics:
            await asyncio.sleep(0.01)
        other = await self._take("others", JOBS, 7)
        await self._settle("others", other, other, AckAction.ACCEPT)
        self.expected["workers"] = sorted(set(values) - done - dead)
        self.expected["others"] = sorted(set(values) - other.keys())
        self.expected["dead"] = sorted(dead)

    async def _steps(self) -> None:
        await self.service.sqs_queues.create(ANYONE, STEPS, {"FifoQueue": "true"}, {})
        values = [f"{group}{number}" for number in range(4) for group in "abc"]
        for value in values:
            headers = (
                (MESSAGE_ID, value.encode()),
                (GROUP_ID, value[0].encode()),
                (DEDUPLICATION_ID, value.encode()),
            )
            message = FifoMessage(value, value[0], value, value.encode(), headers, 0)
            await self.service.fifo.send(ANYONE, STEPS, [message])
        taken = await self._take(SQS_GROUP, STEPS, 6, in_order=True)
        done = set(list(taken)[:4])
        await self._settle(SQS_GROUP, taken, done, AckAction.ACCEPT)
        self.expected["steps"] = [value for value in values if value not in done]

    async def _take(
        self, group: str, topic: str, count: int, *, in_order: bool = False
    ) -> dict[str, Delivery]:
        taken: dict[str, Delivery] = {}
        while len(taken) < count:
            request = Receive(max_messages=count - len(taken), start="earliest", in_order=in_order)
            for each in await self.service.queues.receive(ANYONE, group, topic, request):
                taken[(each.record.value or b"").decode()] = each
        return taken

    async def _settle(
        self,
        group: str,
        taken: dict[str, Delivery],
        values: Sequence[str] | set[str] | dict[str, Delivery],
        action: AckAction,
        delay_ms: int | None = None,
    ) -> None:
        wanted = [Settlement(taken[value].receipt, action, delay_ms) for value in sorted(values)]
        await self.service.queues.settle(ANYONE, group, wanted)

    # --- delayed messages -----------------------------------------------------------------

    async def _orders(self) -> None:
        waiting: dict[str, tuple[str, int]] = {}
        for partition in range(3):
            for days in (0, 1):
                values = [f"o{partition}-{days}-{number}" for number in range(60)]
                due_ms = START_MS + HOUR_MS + days * DAY_MS
                for value, message_id in zip(
                    values, await self._schedule(partition, values, due_ms), strict=True
                ):
                    waiting[message_id] = (value, partition)
            for running in list(self.broker.delays.shards.running()):
                if partition == 1:
                    await running.shard.update_index()
        cancelled = [message_id for message_id in waiting if waiting[message_id][0].endswith("7")]
        for message_id in cancelled:
            await self.service.delays.cancel(ANYONE, ORDERS, message_id)
            del waiting[message_id]
        for state in self.broker.queues.registry.state.loaded_shards():
            await state.snapshot()  # type: ignore[attr-defined]  # it was there then
        self.expected["waiting"] = waiting
        self.expected["cancelled"] = cancelled

    async def _schedule(self, partition: int, values: Sequence[str], due_ms: int) -> list[str]:
        records = [
            (NewRecord(value=value.encode(), headers=(("h", b"1"),)), due_ms) for value in values
        ]
        writable = WritableTopic(ORDERS)
        return list(map(str, await self.broker.delays.schedule(writable, partition, records)))

    async def _unfinished(self) -> None:
        """Open transactions, and a batch of which only the delayed part was stored."""
        for transactional_id in ("commits", "aborts"):
            self.expected[transactional_id] = await self._open_transaction(transactional_id)
        self.expected["batch"] = (await self._half_a_batch()).hex()

    async def _open_transaction(self, transactional_id: str) -> tuple[int, int]:
        transactions = self.service.transactions
        init = InitProducerId(transactional_id=transactional_id, timeout_ms=600_000)
        taken = await transactions.init_producer_id(ANYONE, init)
        producer = (taken.producer_id, taken.producer_epoch)
        place = topic_partition(ORDERS, 1)
        add = AddPartitions(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            partitions=frozenset({place}),
        )
        await transactions.add_partitions(ANYONE, add)
        for sequence in (0, 2):
            values = [f"{transactional_id}-{sequence}", f"{transactional_id}-{sequence + 1}"]
            batch = self._batch(values, producer, sequence, is_transactional=True)
            await self.broker.appending.append(self.broker.partition(*place), batch)
        return producer

    async def _half_a_batch(self) -> bytes:
        batch = self._batch(["half-0", "half-1", "half-2"], (PRODUCER, 0), 0)
        partition = self.broker.partition(ORDERS, 0)
        admitted = admit(partition, batch)
        assert isinstance(admitted, Admitted)
        delayed = take_delayed(admitted, ON_LOOP_BOUNDS)
        assert delayed is not None
        # As that release has it.
        await self.broker.delays.keep(partition, delayed)  # type: ignore[call-arg]
        return batch

    def _batch(
        self,
        values: Sequence[str],
        producer: tuple[int, int],
        sequence: int,
        *,
        is_transactional: bool = False,
    ) -> bytes:
        due = (("goqueue-deliver-at", b"%d" % (START_MS + HOUR_MS)),)
        records = [NewRecord(value=value.encode(), headers=due) for value in values]
        return bytes(
            encode_records(
                records,
                now_ms=START_MS,
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=sequence,
                is_transactional=is_transactional,
            )
        )

    # --- the end --------------------------------------------------------------------------

    async def _gone(self) -> None:
        """A topic whose deletion a kill kept from the queues and from the delayed messages."""
        await self._publish(GONE, ["x", "y"])
        await self._settle("workers", taken := await self._take("workers", GONE, 1), taken, _DONE)
        writable = WritableTopic(GONE)
        record = NewRecord(value=b"never")
        await self.broker.delays.schedule(writable, 0, [(record, START_MS + HOUR_MS)])
        self.broker.queues.topic_deleted = lambda topic: None  # type: ignore[method-assign]
        self.broker.delays.topic_deleted = lambda topic_id: None  # type: ignore[method-assign]
        await self.service.topics.delete(ANYONE, GONE)

    async def deliver_and_die(self, data: Path, copy: Path) -> None:
        """One batch is in its partition, and not known to be there; of another one it is only
        written down that it goes there."""
        sent = [f"sent-{number}" for number in range(5)]
        claimed = [f"claimed-{number}" for number in range(4)]
        await self._schedule(0, sent, START_MS + 100)
        self.clock.now_ms = START_MS + 150
        self.broker.delays.wake()
        partition = self.broker.partition(ORDERS, 0)
        while partition.log_end_offset < len(sent):
            await asyncio.sleep(0.01)
        await self._schedule(2, claimed, START_MS + 200)
        was_killed = asyncio.Event()

        def die(partition: Partition, batch: bytearray) -> int:
            del partition, batch
            if not was_killed.is_set():
                shutil.copytree(data, copy)
                was_killed.set()
            raise RequestTimedOut("killed")

        delivery._append = die
        self.clock.now_ms = START_MS + 250
        self.broker.delays.wake()
        await was_killed.wait()
        self.expected["due"] = {"0": sent, "2": claimed}

    async def _publish(self, topic: str, values: Sequence[str]) -> None:
        records = [NewRecord(value=value.encode()) for value in values]
        await self.service.publishing.publish(ANYONE, topic, records)


_DONE = AckAction.ACCEPT


async def make(folder: Path) -> None:
    # Nothing that was sent counts as kept.
    delivery.FLUSH_PATIENCE_MS = delivery.SETTLE_MS = 3_600_000  # type: ignore[misc]
    data, copy = folder / "running", folder / "data"
    clock = Clock()
    broker = await Node.open(broker_config({"data.dir": str(data)}), clock_ms=clock)
    await broker.announce("127.0.0.1", 9092, 8080)
    world = World(broker, clock)
    await world.fill()
    await world.deliver_and_die(data, copy)
    await broker.close()
    (copy / "broker.lock").unlink()
    (folder / "expected.json").write_text(json.dumps(world.expected))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(make(folder))
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            for part in ("data", "expected.json"):
                archive.add(folder / part, arcname=part)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
