"""Whole brokers of one cluster in one event loop: one store of metadata, real logs, real TCP."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, Self, overload

from goqueue.broker.membership.cluster_claim import claim_cluster
from goqueue.broker.membership.identity_file import IdentityFile
from goqueue.broker.membership.membership import Membership
from goqueue.broker.node import Node, system_clock_ms
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.doors.kafka import KafkaDoor
from goqueue.metadata.local import LocalStore
from goqueue.metadata.store import (
    Compare,
    LeaseId,
    MetadataStore,
    Op,
    Read,
    TxnResult,
    Watch,
    WatchBatch,
)
from goqueue.model.batch import iterate_batches
from goqueue.model.broker_config import broker_config
from goqueue.model.errors import MetadataUnavailable
from goqueue.model.log import FetchPart, Isolation
from goqueue.model.measuring.histograms import Histogram
from goqueue.model.names import NodeId
from goqueue.model.records import NewRecord, decode_records, encode_records
from goqueue.model.topics import NewTopic, PartitionView
from goqueue.service.broker_service import BrokerService
from goqueue.storage.data_directory import DataDirectory
from goqueue.testing.faulty_disk import FaultyDisk
from tests.busy_machine import patience
from tests.callers import ANYONE

TOPIC = "t"


class SharedStore(LocalStore):
    """A node that closes closes its store: not this one."""

    async def close(self) -> None:
        pass

    async def end(self) -> None:
        await super().close()


class StoreLine(MetadataStore):
    """One node's way to the store, which can be cut."""

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._whole = asyncio.Event()
        self._whole.set()

    def cut(self) -> None:
        self._whole.clear()

    def heal(self) -> None:
        self._whole.set()

    def _reached(self) -> LocalStore:
        if not self._whole.is_set():
            raise MetadataUnavailable("cut off")
        return self._store

    @property
    def unavailable_reason(self) -> str | None:
        return None if self._whole.is_set() else "cut off"

    @property
    def latencies(self) -> Histogram:
        return self._store.latencies

    async def get(self, key: str) -> Read:
        return await self._reached().get(key)

    async def get_prefix(self, prefix: str) -> Read:
        return await self._reached().get_prefix(prefix)

    async def transact(
        self,
        compares: Sequence[Compare],
        success_ops: Sequence[Op],
        failure_ops: Sequence[Op] = (),
    ) -> TxnResult:
        return await self._reached().transact(compares, success_ops, failure_ops)

    def watch(self, prefix: str, from_revision: int) -> Watch:
        return _LineWatch(self._store.watch(prefix, from_revision), self._whole)

    async def grant_lease(self, ttl_ms: int) -> LeaseId:
        return await self._reached().grant_lease(ttl_ms)

    async def keep_alive(self, lease: LeaseId) -> int:
        return await self._reached().keep_alive(lease)

    async def revoke(self, lease: LeaseId) -> None:
        await self._reached().revoke(lease)

    async def close(self) -> None:
        pass


class _LineWatch(Watch):
    def __init__(self, watch: Watch, whole: asyncio.Event) -> None:
        self._watch = watch
        self._whole = whole

    async def __anext__(self) -> WatchBatch:
        batch = await anext(self._watch)
        await self._whole.wait()
        return batch

    def __aiter__(self) -> Self:
        return self

    async def aclose(self) -> None:
        await self._watch.aclose()


class RunningNode:
    def __init__(
        self, node: Node, door: KafkaDoor, disk: FaultyDisk, identity: IdentityFile
    ) -> None:
        self.node = node
        self.door = door
        self.disk = disk
        self.identity = identity
        self.service = BrokerService(node)

    @classmethod
    async def start(
        cls, store: MetadataStore, folder: Path, node_id: int, settings: dict[str, str]
    ) -> "RunningNode":
        config = broker_config(
            {
                "node.id": str(node_id),
                "data.dir": str(folder),
                "cluster": "etcd://in-this-process:1",
                "host": "127.0.0.1",
                "kafka.port": "0",
                # Nobody else's work slows a test down for longer than this.
                "broker.session.timeout.ms": "60000",
                "replica.lag.time.max.ms": "60000",
                "offsets.topic.num.partitions": "1",
                "transaction.state.log.num.partitions": "1",
                **settings,
            }
        )
        disk = FaultyDisk()
        directory = DataDirectory.open(folder, disk)
        await claim_cluster(store, directory)
        identity = IdentityFile.open(disk, directory.node_path, NodeId(node_id))
        node = Node(
            config,
            directory=directory,
            store=store,
            disk=disk,
            clock_ms=system_clock_ms,
            identity=identity,
        )
        await node._start()
        door = KafkaDoor(BrokerService(node), config)
        assert node.cluster is not None
        node.cluster.stepped_down = door.send_away
        host, port = await door.start()
        await node.announce(host, port, 1)
        return cls(node, door, disk, identity)

    @property
    def id(self) -> int:
        return self.node.node_id

    @property
    def membership(self) -> Membership:
        assert self.node.cluster is not None
        return self.node.cluster.membership

    def view(self, index: int = 0) -> PartitionView:
        return self.node.image.topics[TOPIC].partitions[index]

    def replica(self, index: int = 0) -> HostedPartition:
        found = self.node.hosted.get(TOPIC, index)
        assert found is not None
        return found

    def leads(self, index: int = 0) -> bool:
        found = self.node.hosted.get(TOPIC, index)
        return found is not None and found.led is not None

    async def produce(
        self, *values: bytes, index: int = 0, acks: int = -1, timeout_ms: int = 30_000
    ) -> int:
        batch = encode_records([NewRecord(value=value) for value in values], now_ms=1_000)
        produced = await self.service.log.produce(
            ANYONE, TOPIC, index, batch, acks=acks, timeout_ms=timeout_ms
        )
        return produced.base_offset

    async def read_all(self, index: int = 0) -> list[bytes | None]:
        found: list[bytes | None] = []
        offset = self.replica(index).log_start_offset
        while True:
            [part] = await self.service.log.fetch(
                ANYONE,
                [FetchPart(TOPIC, index, offset, 10_000_000)],
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=10_000_000,
                isolation=Isolation.READ_UNCOMMITTED,
            )
            assert part.error is None
            if not part.data:
                return found
            for position, header in iterate_batches(part.data):
                batch = part.data[position : position + header.size_bytes]
                found += [record.value for record in decode_records(batch)]
            offset = part.next_offset

    async def stop(self) -> None:
        """In order: others lead on."""
        await self.node.hand_over()
        await self.door.stop()
        await self.node.close()

    async def die(self) -> None:
        """As others see a process that was killed: its connections end, then its registration."""
        lease = self.membership.lease
        assert self.node.cluster is not None
        await self.node.cluster.stop()
        for connection in self.door.connections:
            connection.abort()
        await self.door.stop()
        await self.node._store.revoke(lease)
        await self.node.close()


class Nodes:
    def __init__(self, store: LocalStore, folder: Path) -> None:
        self.store = store
        self.running: dict[int, RunningNode] = {}
        self.lines: dict[int, StoreLine] = {}
        self._folder = folder

    async def start(self, *ids: int, **settings: str) -> list[RunningNode]:
        texts = {name.replace("__", "."): text for name, text in settings.items()}
        started = []
        for node_id in ids:
            folder = self._folder / f"n{node_id}"
            line = self.lines[node_id] = StoreLine(self.store)
            node = await RunningNode.start(line, folder, node_id, texts)
            self.running[node_id] = node
            started.append(node)
        return started

    async def make_topic(
        self,
        partitions: int = 1,
        replicas: Sequence[int] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        node = next(iter(self.running.values()))
        ids = tuple(replicas or self.running)
        assigned = {
            index: (*ids[index % len(ids) :], *ids[: index % len(ids)])
            for index in range(partitions)
        }
        created = await node.service.topics.create(
            ANYONE,
            NewTopic(
                name=TOPIC,
                assignments=assigned,
                config=config or {},
            ),
        )
        assert created
        await self.until(
            lambda: all(
                TOPIC in other.node.image.topics
                and all(other.replica(i) for i, to in assigned.items() if other.id in to)
                for other in self.running.values()
            )
        )
        await self.until(lambda: all(self.leader(index) for index in assigned))

    def leader(self, index: int = 0) -> RunningNode | None:
        return next((node for node in self.running.values() if node.leads(index)), None)

    async def until(self, is_so: Callable[[], object]) -> None:
        while True:
            try:
                if is_so():
                    return
            except (KeyError, AssertionError, IndexError):
                pass
            await asyncio.sleep(0.005)

    async def until_in_sync(self, *ids: int, index: int = 0) -> None:
        """As the leader knows it."""

        def are_in_sync() -> bool:
            leader = self.leader(index)
            led = None if leader is None else leader.replica(index).led
            assert led is not None
            assert led.leading is not None
            return {member.node for member in led.leading.state.in_sync} == set(ids)

        await self.until(are_in_sync)

    async def die(self, node_id: int) -> None:
        await self.running.pop(node_id).die()

    async def stop(self, node_id: int) -> None:
        await self.running.pop(node_id).stop()


Scenario = Callable[[Nodes], Coroutine[Any, Any, None]]


Test = Callable[[Path], None]


@overload
def with_nodes(scenario: Scenario) -> Test: ...


@overload
def with_nodes(*, store: type[SharedStore]) -> Callable[[Scenario], Test]: ...


def with_nodes(
    scenario: Scenario | None = None, *, store: type[SharedStore] = SharedStore
) -> Test | Callable[[Scenario], Test]:
    """Runs a scenario on a store of its own, and ends its nodes."""
    if scenario is None:
        return partial(_test_of, store)
    return _test_of(store, scenario)


def _test_of(store_type: type[SharedStore], scenario: Scenario) -> Test:
    @wraps(scenario)
    def run(tmp_path: Path) -> None:
        async def on_loop() -> None:
            store = await store_type.open(tmp_path / "store")
            nodes = Nodes(store, tmp_path)
            try:
                async with asyncio.timeout(patience(60)):
                    await scenario(nodes)
            finally:
                for node in nodes.running.values():
                    await node.door.stop()
                    await node.node.close()
                await store.end()

        asyncio.run(on_loop())

    # pytest asks for what the scenario's own arguments are called.
    del run.__wrapped__
    return run
