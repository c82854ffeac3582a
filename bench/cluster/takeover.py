"""`python -m bench.cluster.takeover`: a broker is killed that leads a million of something.

Three brokers, replication factor 3, min.insync.replicas 2. In one run a million messages are leased
and not acknowledged, in another a million are delayed, most of them for hours and some so that they
fall due around the kill. The broker that leads all of them is killed (kill -9). How long is it
until another one is elected, and from then on, until that one does its work?
"""

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import httpx
import msgspec
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kio.schema.metadata.v12.response import MetadataResponse

from bench.artifacts import ROOT
from bench.cluster.contestants import NODES
from bench.cluster.gaps import CLIENT
from bench.load_run import LoadFailed
from bench.machine import describe_machine, keep_to_two_cores, load_average
from bench.rounds import MEGABYTE, say
from goqueue.client.connection import Connection
from goqueue.client.questions import metadata_request
from goqueue.model.companions import DELAYED, QUEUE_STATE, companion_of
from goqueue.model.errors import GoQueueError
from goqueue.testing import GoQueueCluster

Headers = list[tuple[str, str | bytes | None]]

# Leads everything until it is killed; the next in each list of replicas is elected then.
VICTIM: Final = 1
SUCCESSOR: Final = 2
TOPIC: Final = "work"
GROUP: Final = "workers"
VALUE_BYTES: Final = 100
# A queue has at most 100,000 messages that were delivered and are not settled.
LEASED_PER_PARTITION: Final = 80_000
DELAYED_PARTITIONS: Final = 4
HOUR_MS: Final = 3_600_000
# How long messages fall due before and after the kill, and how many each second.
DUE_BEFORE_S: Final = 5
DUE_AFTER_S: Final = 15
# Messages in one request: as many as a receive may have.
AT_ONCE: Final = 1_000
RECEIVERS: Final = 4
LIMIT_S: Final = 600.0
LOOK_S: Final = 0.01
# Followers do their own work on what they copied: within a minute, they say.
SETTLED_S: Final = 90.0


class Takeover(msgspec.Struct):
    """Seconds are from the kill for the election, and from the election for all else."""

    what: str
    count: int
    fsync_policy: str
    made_s: float = 0.0
    memory_mb: dict[str, int] = msgspec.field(default_factory=dict)
    standby_lag: int | None = None
    load: float = 0.0
    elected_s: float = 0.0
    figures: dict[str, float] = msgspec.field(default_factory=dict)


class Elections(threading.Thread):
    """Asks the successor again and again who leads, and notes when it is itself, of all of them."""

    def __init__(self, address: str, topics: list[str]) -> None:
        super().__init__(daemon=True)
        self._host, _, self._port = address.partition(":")
        self._topics = topics
        self.elected_at: float | None = None

    def run(self) -> None:
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        connection = await Connection.open(self._host, int(self._port))
        try:
            while self.elected_at is None:
                with contextlib.suppress(GoQueueError):
                    found = await connection.call(metadata_request(self._topics), MetadataResponse)
                    leaders = {
                        part.leader_id for topic in found.topics for part in topic.partitions
                    }
                    if leaders == {SUCCESSOR}:
                        self.elected_at = time.monotonic()
                await asyncio.sleep(LOOK_S)
        finally:
            await connection.close()


class Bench:
    def __init__(self, cluster: GoQueueCluster, fsync_policy: str, partitions: int) -> None:
        self._cluster = cluster
        self._partitions = partitions
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        config = {
            "min.insync.replicas": "2",
            "fsync.policy": fsync_policy,
            "flush.ms": "1000",
            "queue.max.in.flight": "1000000",
            "queue.max.in.flight.per.consumer": "1000000",
            "queue.visibility.timeout.ms": str(12 * HOUR_MS),
        }
        where = [list(NODES)] * partitions
        new = NewTopic(TOPIC, partitions, replica_assignment=where, config=config)
        self._admin.create_topics([new])[TOPIC].result(LIMIT_S)
        self._until(lambda: self._leaders([TOPIC]) == {VICTIM})

    # --- what both need -------------------------------------------------------------------

    def companion(self, kind: str) -> str:
        found = self._admin.describe_topics(_names(TOPIC))[TOPIC].result(LIMIT_S)
        return companion_of(kind, UUID(bytes=_uuid_bytes(found.topic_id)))

    def _leaders(self, topics: list[str]) -> set[int]:
        found = self._admin.list_topics(timeout=LIMIT_S).topics
        known = [found[topic] for topic in topics if topic in found]
        return {part.leader for topic in known for part in topic.partitions.values()}

    def _until(self, is_so: Callable[[], bool], limit_s: float = LIMIT_S) -> bool:
        deadline = time.monotonic() + limit_s
        while not is_so():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def http_url(self, node: int) -> str:
        return self._cluster.server(node).http_url

    def memory_mb(self) -> dict[str, int]:
        return {
            f"broker {node}": round(_resident_bytes(self._cluster.server(node).pid) / MEGABYTE)
            for node in self._cluster.running
        }

    def settle(self, topics: list[str]) -> int | None:
        """Until all replicas are in sync and those who stand by have caught up; how far they are
        behind, if they say so."""
        self._until(lambda: self._are_in_sync(topics))
        self._until(lambda: self._standby_lag() in (0, None), SETTLED_S)
        return self._standby_lag()

    def _are_in_sync(self, topics: list[str]) -> bool:
        found = self._admin.list_topics(timeout=LIMIT_S).topics
        return all(
            len(part.isrs) == len(NODES)
            for topic in topics
            for part in found[topic].partitions.values()
        )

    def _standby_lag(self) -> int | None:
        lags = []
        for node in NODES:
            text = httpx.get(f"{self.http_url(node)}/metrics", timeout=60).text
            lags += [
                int(float(line.rpartition(" ")[2]))
                for line in text.splitlines()
                if line.startswith("goqueue_standby_lag_records")
            ]
        return sum(lags) if lags else None

    def kill(self, topics: list[str]) -> tuple[float, Elections]:
        elections = Elections(self._cluster.server(SUCCESSOR).own_address, topics)
        elections.start()
        time.sleep(1)
        at = time.monotonic()
        self._cluster.kill(VICTIM)
        return at, elections

    # --- leases ---------------------------------------------------------------------------

    def leases(self, takeover: Takeover, *, acknowledged: bool) -> None:
        """`acknowledged`: every second message of what was received, so that what is leased lies in
        pieces."""
        wanted = takeover.count * (2 if acknowledged else 1)
        begun = time.monotonic()
        self._produce(wanted, lambda _: None)
        say(f"  {wanted:,} messages produced in {time.monotonic() - begun:.0f} s")
        asyncio.run(self._lease(wanted, acknowledged))
        takeover.made_s = time.monotonic() - begun
        topics = [TOPIC, self.companion(QUEUE_STATE)]
        takeover.standby_lag = self.settle(topics)
        takeover.memory_mb, takeover.load = self.memory_mb(), load_average()
        say(f"  leased; {takeover.memory_mb}; behind {takeover.standby_lag}")
        killed_at, elections = self.kill(topics)
        seen: dict[int, float] = {}
        acked_at = 0.0
        with httpx.Client(timeout=5) as client:
            while len(seen) < self._partitions and time.monotonic() < killed_at + LIMIT_S:
                for message in self._receive_one(client):
                    seen.setdefault(message["partition"], time.monotonic())
                    if not acked_at and self._ack(client, message["receipt"]):
                        acked_at = time.monotonic()
        elections.join(LIMIT_S)
        elected_at = elections.elected_at or float("nan")
        takeover.elected_s = elected_at - killed_at
        takeover.figures = {
            "first message received, s after the election": min(seen.values()) - elected_at,
            "first acknowledgement, s after the election": acked_at - elected_at,
            f"a message of each of {self._partitions} partitions received, s after": (
                max(seen.values()) - elected_at
            ),
        }

    def _receive_one(self, client: httpx.Client) -> list[dict[str, Any]]:
        try:
            answer = client.post(
                f"{self.http_url(SUCCESSOR)}/groups/{GROUP}/receive",
                json={"topic": TOPIC, "max": 1},
            )
        except httpx.HTTPError:
            return []
        if answer.status_code != 200:
            time.sleep(LOOK_S)
            return []
        found: list[dict[str, Any]] = answer.json()["messages"]
        return found

    def _ack(self, client: httpx.Client, receipt: str) -> bool:
        answer = client.post(
            f"{self.http_url(SUCCESSOR)}/messages/ack",
            json={"group": GROUP, "receipts": [receipt]},
        )
        return answer.status_code == 200

    async def _lease(self, wanted: int, acknowledged: bool) -> None:
        left = wanted

        async def work(client: httpx.AsyncClient) -> None:
            nonlocal left
            while left > 0:
                left -= AT_ONCE
                receipts = await _received(client, self.http_url(VICTIM), AT_ONCE)
                # What was not there is asked for again.
                left += AT_ONCE - len(receipts)
                if acknowledged and receipts:
                    await _acknowledge(client, self.http_url(VICTIM), receipts[::2])

        async with httpx.AsyncClient(timeout=60) as client:
            await asyncio.gather(*(work(client) for _ in range(RECEIVERS)))

    # --- delays ---------------------------------------------------------------------------

    def delays(self, takeover: Takeover, due_per_s: int) -> None:
        dice = random.Random(1)
        begun = time.monotonic()
        now_ms = int(time.time() * 1000)
        later = [now_ms + HOUR_MS + dice.randrange(4 * HOUR_MS) for _ in range(takeover.count)]
        self._produce(takeover.count, later.__getitem__)
        takeover.made_s = time.monotonic() - begun
        topics = [TOPIC, self.companion(DELAYED)]
        takeover.standby_lag = self.settle(topics)
        takeover.memory_mb, takeover.load = self.memory_mb(), load_average()
        say(f"  delayed; {takeover.memory_mb}; behind {takeover.standby_lag}")
        reader = DueReader(self._cluster.bootstrap_servers, self._partitions)
        reader.start()
        lead_s = 5 + due_per_s * (DUE_BEFORE_S + DUE_AFTER_S) / 20_000
        first_ms = int(time.time() * 1000 + lead_s * 1000)
        count = due_per_s * (DUE_BEFORE_S + DUE_AFTER_S)
        due = [first_ms + number * 1000 // due_per_s for number in range(count)]
        self._produce(count, due.__getitem__)
        time.sleep(max(0.0, first_ms / 1000 + DUE_BEFORE_S - time.time() - 1))
        killed_at, elections = self.kill(topics)
        scheduled_at = self._schedule_one()
        elections.join(LIMIT_S)
        self._until(lambda: len(reader.seen) >= count, 120)
        reader.end()
        elected_at = elections.elected_at or float("nan")
        takeover.elected_s = elected_at - killed_at
        numbers = {each.number for each in reader.seen}
        # From the clock of messages to that of this process.
        killed_ms = (time.time() - time.monotonic() + killed_at) * 1000
        after = [each for each in reader.seen if each.delivered_ms > killed_ms]
        first_ms = min(each.delivered_ms for each in after)
        takeover.figures = {
            "first message delayed anew, s after the election": scheduled_at - elected_at,
            "first one delivered, s after the election": (
                (first_ms - killed_ms) / 1000 - takeover.elected_s
            ),
            "latest one delivered, s late": max(e.delivered_ms - e.due_ms for e in after) / 1000,
            "latest one read by a consumer, s late": max(e.read_ms - e.due_ms for e in after)
            / 1000,
            "latest one delivered before the kill, s late": max(
                (e.delivered_ms - e.due_ms for e in reader.seen if e.delivered_ms <= killed_ms),
                default=0,
            )
            / 1000,
            "messages due around the kill": count,
            "of these delivered": len(numbers),
            "delivered again": len(reader.seen) - len(numbers),
        }

    def _schedule_one(self) -> float:
        url = f"{self.http_url(SUCCESSOR)}/topics/{TOPIC}/messages"
        with httpx.Client(timeout=5) as client:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    message = {"value": "late", "delay": 10 * HOUR_MS, "partition": 0}
                    if client.post(url, json=message).status_code in (200, 201):
                        return time.monotonic()
                time.sleep(LOOK_S)

    def _produce(self, count: int, due_ms: Callable[[int], int | None]) -> None:
        """`due_ms` by the number of the message; None is at once."""
        failed = 0

        def note(error: KafkaError | None, _: Message) -> None:
            nonlocal failed
            failed += error is not None

        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap_servers,
                **CLIENT,
                "linger.ms": 20,
                "queue.buffering.max.messages": 200_000,
                "message.timeout.ms": 300_000,
                "request.timeout.ms": 60_000,
                "socket.timeout.ms": 60_000,
            }
        )
        filler = b"x" * VALUE_BYTES
        for number in range(count):
            due = due_ms(number)
            headers: Headers = [] if due is None else [("goqueue-deliver-at", str(due))]
            value = (b"%d %d " % (number, due or 0) + filler)[:VALUE_BYTES]
            while True:
                try:
                    producer.produce(
                        TOPIC,
                        value,
                        partition=number % self._partitions,
                        headers=headers,
                        on_delivery=note,
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
            if number % 1000 == 0:
                producer.poll(0)
        producer.flush(LIMIT_S)
        if failed:
            raise LoadFailed(f"{failed} messages failed")


class Delivered(NamedTuple):
    """A delayed message that was read; its own timestamp is when it was delivered."""

    number: int
    due_ms: int
    delivered_ms: int
    read_ms: float


class DueReader(threading.Thread):
    """Reads the topic, and notes when each delayed message came."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "lateness",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                **{name: CLIENT[name] for name in CLIENT if name in _SHARED},
            }
        )
        self._consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(partitions)])
        self._ended = threading.Event()
        self.seen: list[Delivered] = []

    def run(self) -> None:
        while not self._ended.is_set():
            for message in self._consumer.consume(1000, 0.05):
                value = message.value()
                if message.error() is not None or not isinstance(value, bytes):
                    continue
                number, due_ms = map(int, value.split(b" ")[:2])
                _, delivered_ms = message.timestamp()
                read_ms = time.time() * 1000
                self.seen.append(Delivered(number, due_ms, delivered_ms, read_ms))
        self._consumer.close()

    def end(self) -> None:
        self._ended.set()
        self.join()


_SHARED: Final = (
    "socket.timeout.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "topic.metadata.refresh.fast.interval.ms",
    "log_level",
)


async def _received(client: httpx.AsyncClient, url: str, count: int) -> list[str]:
    answer = await client.post(
        f"{url}/groups/{GROUP}/receive", json={"topic": TOPIC, "max": count, "start": "earliest"}
    )
    if answer.status_code != 200:
        return []
    return [message["receipt"] for message in msgspec.json.decode(answer.content)["messages"]]


async def _acknowledge(client: httpx.AsyncClient, url: str, receipts: list[str]) -> None:
    answer = await client.post(f"{url}/messages/ack", json={"group": GROUP, "receipts": receipts})
    answer.raise_for_status()


def _names(*topics: str) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection(list(topics))


def _uuid_bytes(topic_id: Any) -> bytes:
    high = int(topic_id.get_most_significant_bits())
    low = int(topic_id.get_least_significant_bits())
    return ((high % (1 << 64)) << 64 | low % (1 << 64)).to_bytes(16)


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


@contextlib.contextmanager
def _bench(fsync_policy: str, partitions: int) -> Iterator[Bench]:
    with (
        tempfile.TemporaryDirectory(prefix="bench-takeover-") as folder,
        GoQueueCluster(brokers=len(NODES), folder=folder) as cluster,
    ):
        yield Bench(cluster, fsync_policy, partitions)


def _report(found: list[Takeover], load_before: float) -> str:
    machine = describe_machine()
    lines = [
        "# A broker is killed that leads a million of something",
        "",
        "`python -m bench.cluster.takeover`. Three brokers, etcd and the client on "
        f"{machine.cores_used} cores ({machine.processor}), {machine.memory_gb} GB, Python "
        f"{machine.python}; load average before {load_before}, after {load_average()}. "
        "Replication factor 3, acks=all, `min.insync.replicas=2`; `fsync.policy` as said, "
        "`interval` is every second.",
    ]
    for each in found:
        lag = "not told" if each.standby_lag is None else f"{each.standby_lag:,} records"
        memory = ", ".join(f"{name} {size:,} MB" for name, size in each.memory_mb.items())
        lines += [
            "",
            f"## {each.count:,} {each.what}, `fsync.policy={each.fsync_policy}`",
            "",
            "| | |",
            "|---|---|",
            f"| made in, s | {each.made_s:.0f} |",
            f"| memory before the kill | {memory} |",
            f"| standbys behind before the kill | {lag} |",
            f"| load average before the kill | {each.load} |",
            f"| another one is elected, s after the kill | {each.elected_s:.2f} |",
            *(f"| {name} | {_shown(value)} |" for name, value in each.figures.items()),
        ]
    return "\n".join([*lines, ""])


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"**{value:.2f}**"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--due-per-s", type=int, default=1_000, help="that fall due at the kill")
    parser.add_argument("--fsync", nargs="*", default=["interval"])
    parser.add_argument(
        "--what",
        nargs="*",
        default=["leases", "pieces", "delays"],
        help="pieces: leases, with every second message acknowledged",
    )
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    chosen = parser.parse_args()
    keep_to_two_cores()
    load_before = load_average()
    found: list[Takeover] = []
    for policy in chosen.fsync:
        for what in chosen.what:
            say(f"{what}, {policy}")
            if what == "delays":
                takeover = Takeover("pending delays", chosen.count, policy)
                with _bench(policy, DELAYED_PARTITIONS) as bench:
                    bench.delays(takeover, chosen.due_per_s)
            else:
                in_pieces = what == "pieces"
                label = "leased messages" + (", each between two settled ones" * in_pieces)
                takeover = Takeover(label, chosen.count, policy)
                with _bench(policy, -(-chosen.count // LEASED_PER_PARTITION)) as bench:
                    bench.leases(takeover, acknowledged=in_pieces)
            say(f"  {takeover}")
            found.append(takeover)
    text = _report(found, load_before)
    path = chosen.results / f"{datetime.now():%Y-%m-%d-%H%M}-takeover.md"
    path.write_text(text)
    print(text)
    say(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
