"""Sending to FIFO queues: once, also after a restart and when nobody knows what was stored."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from goqueue.broker.delays.delivery import DelayDelivery
from goqueue.broker.node import Node
from goqueue.broker.queues.fifo import FifoSending
from goqueue.broker.queues.fifo_history import FifoHistory
from goqueue.broker.queues.sqs_catalogue import SqsCatalogue
from goqueue.model.batch import iterate_batches
from goqueue.model.errors import GoQueueError, RecordTooLarge, RequestTimedOut
from goqueue.model.log import Isolation
from goqueue.model.names import topic_partition
from goqueue.model.partitioner import partition_for_key
from goqueue.model.publishing import Outcome, WriterTurn
from goqueue.model.queues.fifo import FifoMessage, SentOnce
from goqueue.model.queues.sqs_headers import (
    DEDUPLICATION_ID,
    GROUP_ID,
    MESSAGE_ID,
    system_facts,
)
from goqueue.model.queues.sqs_queue import SqsQueue
from goqueue.model.records import NewRecord, Record
from goqueue.model.rights import ReadableTopic, WritableTopic
from goqueue.service.broker_service import BrokerService
from goqueue.service.security.access import Access
from goqueue.state.queues.fifo_window import Taken
from tests.callers import ANYONE
from tests.stored_records import read_records
from tests.unit.broker.conftest import OpenBroker

QUEUE = "orders.fifo"
TOPIC = WritableTopic(QUEUE)


def message(message_id: str, deduplication_id: str = "d", *, delay_ms: int = 0) -> FifoMessage:
    headers = (
        (MESSAGE_ID, message_id.encode()),
        (GROUP_ID, b"g"),
        (DEDUPLICATION_ID, deduplication_id.encode()),
    )
    return FifoMessage(message_id, "g", deduplication_id, b"body", headers, delay_ms)


async def make_queue(broker: Node, **attributes: str) -> None:
    given = {"FifoQueue": "true", **attributes}
    await BrokerService(broker).sqs_queues.create(ANYONE, QUEUE, given, {})


async def send(broker: Node, *messages: FifoMessage) -> list[SentOnce]:
    sent = await BrokerService(broker).fifo.send(ANYONE, QUEUE, messages)
    assert all(isinstance(each, SentOnce) for each in sent), sent
    return [each for each in sent if isinstance(each, SentOnce)]


async def stored(broker: Node) -> list[Record]:
    found: list[Record] = []
    for part in broker.topic(QUEUE).partitions:
        page = await read_records(broker, QUEUE, part.index, 0, limit=100)
        found += page.records
    return found


def ids(records: Sequence[Record]) -> list[str | None]:
    return [system_facts(record.headers).message_id for record in records]


def test_a_repeated_id_is_stored_once(open_broker: OpenBroker) -> None:
    async def run() -> None:
        async with open_broker() as broker:
            await make_queue(broker)
            first, again, other = await send(
                broker, message("1"), message("2"), message("3", "another")
            )
            [later] = await send(broker, message("4"))
            assert first == again == later
            assert first.message_id == "1"
            assert other.sequence_number > first.sequence_number
            records = await stored(broker)
            assert ids(records) == ["1", "3"]
            numbers = [system_facts(record.headers).sequence_number for record in records]
            assert numbers == [first.sequence_number, other.sequence_number]

    asyncio.run(run())


def test_a_restart_knows_what_was_sent(open_broker: OpenBroker) -> None:
    async def run() -> None:
        async with open_broker() as broker:
            await make_queue(broker)
            [first] = await send(broker, message("1"))
        async with open_broker() as broker:
            again, new = await send(broker, message("2"), message("3", "new"))
            assert again == first
            assert new.sequence_number > first.sequence_number
            assert ids(await stored(broker)) == ["1", "3"]

    asyncio.run(run())


@pytest.mark.parametrize("restart", [False, True])
def test_a_purge_forgets_what_was_sent(open_broker: OpenBroker, restart: bool) -> None:
    async def run() -> None:
        async with open_broker() as broker:
            await make_queue(broker)
            first, _ = await send(broker, message("1"), message("x", "other"))
            await BrokerService(broker).sqs_queues.purge(ANYONE, QUEUE)
            [between] = await send(broker, message("2", "later"))
            if not restart:
                await check(broker, first, between)
        if restart:
            async with open_broker() as broker:
                await check(broker, first, between)

    async def check(broker: Node, first: SentOnce, between: SentOnce) -> None:
        again, same = await send(broker, message("3"), message("4", "later"))
        assert again.message_id == "3"
        assert again.sequence_number > first.sequence_number
        assert same == between

    asyncio.run(run())


def test_a_purge_leaves_doubts_about_later_messages(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was never stored must not pass for one that was."""

    async def run() -> None:
        async with open_broker() as broker:
            await make_queue(broker)
            publishing = TroubledPublishing(broker, RequestTimedOut("slow disk"), after=False)
            fifo = troubled(broker, publishing)
            purge = SqsCatalogue.purge

            async def interrupted(*args: Any) -> None:
                [failed] = await fifo.send(TOPIC, [message("1")])
                assert isinstance(failed, RequestTimedOut)
                await purge(*args)

            monkeypatch.setattr(SqsCatalogue, "purge", interrupted)
            await fifo.purge(Access().deletable_topic(ANYONE, QUEUE))
            [again] = await fifo.send(TOPIC, [message("2")])
            assert isinstance(again, SentOnce)
            assert again.message_id == "2"
            assert ids(await stored(broker)) == ["2"]

    asyncio.run(run())


def test_a_restart_knows_what_waits(open_broker: OpenBroker) -> None:
    async def run() -> None:
        async with open_broker() as broker:
            await make_queue(broker)
            [first] = await send(broker, message("1", delay_ms=600_000))
            assert await stored(broker) == []
        async with open_broker() as broker:
            assert await send(broker, message("2", delay_ms=600_000)) == [first]
            assert await stored(broker) == []

    asyncio.run(run())


def test_a_short_retention_keeps_the_ids_of_five_minutes(open_broker: OpenBroker) -> None:
    """They are found again in the log; messages are hidden on time all the same."""

    async def run() -> None:
        async with open_broker() as broker:
            await make_queue(broker, MessageRetentionPeriod="60")
            config = broker.topic_config(broker.topic(QUEUE))
            assert config.retention_ms == 300_000
            assert config.queue_ttl_ms == 60_000
            queue = BrokerService(broker).sqs_queues.find(ANYONE, QUEUE)
            assert queue.attributes["MessageRetentionPeriod"] == "60"

    asyncio.run(run())


def test_what_is_just_being_delivered_is_known(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits no more and is not in the log yet: neither alone tells of it."""
    held = asyncio.Event()
    send_claim = DelayDelivery._send_claim

    async def held_up(delivery: DelayDelivery, *arguments: Any) -> Any:
        await held.wait()
        return await send_claim(delivery, *arguments)

    monkeypatch.setattr(DelayDelivery, "_send_claim", held_up)

    async def run() -> None:
        async with open_broker() as broker:
            await make_queue(broker)
            [first] = await send(broker, message("1", delay_ms=2_000))
            readable = ReadableTopic(QUEUE)
            index = partition_for_key(b"g", len(broker.topic(QUEUE).partitions))
            while not await broker.delays.waiting.being_delivered(readable, index):
                await asyncio.sleep(0.005)
            assert (await broker.delays.waiting.list_pending(readable)).messages == []
            assert await stored(broker) == []
            # A window of its own, which has to find everything again.
            fifo = troubled(broker, TroubledPublishing(broker, None))
            assert await fifo.send(TOPIC, [message("2")]) == [first]
            held.set()

    asyncio.run(run())


def test_a_message_waits_for_nothing_on_a_node_of_one(open_broker: OpenBroker) -> None:
    async def run() -> None:
        async with open_broker() as broker:
            await make_queue(broker)
            await send(broker, message("1", "first"))
            await asyncio.sleep(0)
            sending = broker.fifo.send(TOPIC, [message("2", "second")])
            with pytest.raises(StopIteration) as done:
                sending.send(None)
            [sent] = done.value.value
            assert sent.message_id == "2"
            assert ids(await stored(broker)) == ["1", "2"]

    asyncio.run(run())


def test_messages_that_come_together_share_a_batch(open_broker: OpenBroker) -> None:
    async def run() -> None:
        async with open_broker() as broker:
            await make_queue(broker)
            await send(broker, message("0", "0"))
            await asyncio.sleep(0)
            index = partition_for_key(b"g", len(broker.topic(QUEUE).partitions))
            partition = broker.partition(QUEUE, index)
            start = partition.log_end_offset
            await asyncio.gather(*(send(broker, message(each, each)) for each in "12345"))
            found = await partition.look(start, 10_000, isolation=Isolation.READ_COMMITTED)
            sizes = [header.record_count for _, header in iterate_batches(found.data)]
            # The first one waits for nobody.
            assert sizes == [1, 4]
            assert ids(await stored(broker)) == list("012345")

    asyncio.run(run())


@pytest.mark.parametrize("delay_ms", [0, 600_000])
def test_what_has_to_wait_is_safe_before_it_is_answered(
    open_broker: OpenBroker, delay_ms: int
) -> None:
    async def run() -> None:
        async with open_broker(topic__fsync__policy="always") as broker:
            await make_queue(broker)
            await send(broker, message("1", delay_ms=delay_ms))
            index = partition_for_key(b"g", len(broker.topic(QUEUE).partitions))
            log = broker.partition(QUEUE, index).log
            assert log.flushed_offset == log.log_end_offset == (0 if delay_ms else 1)

    asyncio.run(run())


# --- failures -----------------------------------------------------------------------------


class TroubledPublishing:
    """Fails once, before or after the records are stored; or is only held up."""

    def __init__(self, broker: Node, failure: GoQueueError | None, *, after: bool = False) -> None:
        self._publishing = broker.publishing
        self._failure = failure
        self._after = after
        self.entered = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def publish(
        self,
        topic: WritableTopic,
        records: Sequence[NewRecord],
        *,
        due: Sequence[int | None] | None = None,
        partitions: Sequence[int | None] | None = None,
        turn: WriterTurn | None = None,
    ) -> list[Outcome]:
        self.entered.set()
        await self.go_on.wait()
        failure, self._failure = self._failure, None
        if failure is not None and not self._after:
            return [failure] * len(records)
        outcomes = await self._publishing.publish(
            topic, records, due=due, partitions=partitions, turn=turn
        )
        return outcomes if failure is None else [failure] * len(records)

    def publish_at_once(
        self, topic: WritableTopic, index: int, records: Sequence[NewRecord], turn: WriterTurn
    ) -> None:
        """It takes its time."""


def troubled(broker: Node, publishing: TroubledPublishing) -> FifoSending:
    history = FifoHistory(broker, broker.delays.waiting, broker.calls)
    return FifoSending(broker, broker.sqs_catalogue, publishing, history, broker.calls)


class HeldHistory(FifoHistory):
    """Reads what was stored when it is let to."""

    def __init__(self, broker: Node) -> None:
        super().__init__(broker, broker.delays.waiting, broker.calls)
        self.entered = asyncio.Event()
        self.go_on = asyncio.Event()

    async def read(self, queue: SqsQueue, term: int) -> list[Taken]:
        self.entered.set()
        await self.go_on.wait()
        return await super().read(queue, term)


def test_a_writer_that_is_over_says_of_nothing_that_it_is_stored(open_broker: OpenBroker) -> None:
    """It took the message while it read what was stored, and was replaced before it was done."""

    async def run() -> None:
        async with open_broker() as broker:
            await make_queue(broker)
            history = HeldHistory(broker)
            fifo = FifoSending(
                broker, broker.sqs_catalogue, broker.publishing, history, broker.calls
            )
            sending = asyncio.create_task(fifo.send(TOPIC, [message("1")]))
            await history.entered.wait()
            fifo.partition_lost(topic_partition(QUEUE, 0))
            history.go_on.set()
            [sent] = await sending
            assert isinstance(sent, SentOnce)
            assert ids(await stored(broker)) == ["1"]

    asyncio.run(run())


@pytest.mark.parametrize("after", [True, False])
def test_what_is_in_doubt_is_looked_for(open_broker: OpenBroker, after: bool) -> None:
    async def run() -> None:
        async with open_broker() as broker:
            await make_queue(broker)
            publishing = TroubledPublishing(broker, RequestTimedOut("slow disk"), after=after)
            fifo = troubled(broker, publishing)
            [failed] = await fifo.send(TOPIC, [message("1")])
            assert isinstance(failed, RequestTimedOut)
            [again] = await fifo.send(TOPIC, [message("2")])
            assert isinstance(again, SentOnce)
            assert again.message_id == ("1" if after else "2")
            assert ids(await stored(broker)) == [again.message_id]

    asyncio.run(run())


def test_an_id_that_was_refused_is_free_again(open_broker: OpenBroker) -> None:
    async def run() -> None:
        async with open_broker() as broker:
            await make_queue(broker)
            publishing = TroubledPublishing(broker, RecordTooLarge("too large"))
            fifo = troubled(broker, publishing)
            both = await fifo.send(TOPIC, [message("1"), message("2")])
            # The second waited for the first, which had the id.
            assert [type(each) for each in both] == [RecordTooLarge, RecordTooLarge]
            [again] = await fifo.send(TOPIC, [message("3")])
            assert isinstance(again, SentOnce)
            assert again.message_id == "3"

    asyncio.run(run())


def test_a_client_that_goes_away_leaves_nothing_open(open_broker: OpenBroker) -> None:
    async def run() -> None:
        async with open_broker() as broker:
            await make_queue(broker)
            publishing = TroubledPublishing(broker, None)
            publishing.go_on.clear()
            fifo = troubled(broker, publishing)
            gone = asyncio.create_task(fifo.send(TOPIC, [message("1")]))
            await publishing.entered.wait()
            gone.cancel()
            waiting = asyncio.create_task(fifo.send(TOPIC, [message("2")]))
            publishing.go_on.set()
            [sent] = await waiting
            assert isinstance(sent, SentOnce)
            assert sent.message_id == "1"
            assert ids(await stored(broker)) == ["1"]

    asyncio.run(run())
