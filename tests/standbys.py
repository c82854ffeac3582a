"""Nodes that lead, follow and stand by, on replicas without brokers (`tests/replicas.py`)."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from goqueue.broker.leadership import Leadership
from goqueue.broker.partitions.hosted import HostedPartition
from goqueue.broker.partitions.partition import Partition
from goqueue.broker.runtime.slices import AtLeisure
from goqueue.broker.runtime.standby import StateStandby
from goqueue.broker.runtime.topic import StateTopic
from goqueue.model.batch import iterate_batches
from goqueue.model.errors import NotLeader
from goqueue.model.names import NodeId
from goqueue.model.records import decode_records
from goqueue.state.machine import Machine
from goqueue.storage.log import PartitionLog
from tests.replicas import NAME, Replicas

M = TypeVar("M", bound=Machine)


@dataclass
class _Threads:
    readers: Executor


@dataclass
class NodeHost:
    """Of what shards stand on, the part that they use once their topic is there."""

    node: NodeId
    replicas: Replicas
    clock_ms: Callable[[], int]
    hosted: Any
    leisure: AtLeisure = field(default_factory=AtLeisure)

    def partition(self, topic: str, index: int) -> Partition:
        led = self.replicas[self.node].led
        if led is None:
            raise NotLeader(f"{topic}-{index} is led elsewhere")
        return led

    def check_awake(self) -> None:
        pass


class StandbyNodes(Generic[M]):
    """A state topic on each node, told of roles as a broker tells it."""

    def __init__(self, replicas: Replicas, make: Callable[[], M]) -> None:
        self.replicas = replicas
        self.effects: list[object] = []
        self.busy_nodes: set[int] = set()
        self.hosts = hosts = {
            node: NodeHost(node, replicas, lambda: replicas.now_ms, _Threads(replicas.threads))
            for node in replicas.hosted
        }
        self.states: dict[NodeId, StateTopic[M]] = {
            node: StateTopic(
                host,  # type: ignore[arg-type]  # of topics and metadata it is never asked
                NAME.topic,
                partitions=1,
                make=lambda _index: make(),
                perform=lambda _index, effects: self.effects.extend(effects),
            )
            for node, host in hosts.items()
        }
        leaderships = {
            node: Leadership({NAME.topic: state}, ()) for node, state in self.states.items()
        }

        def role_changed(node: NodeId, hosted: HostedPartition) -> None:
            leaderships[node].role_changed(hosted)

        replicas.role_changed = role_changed

    def standby(self, node: int) -> StateStandby[M] | None:
        return self.states[NodeId(node)]._standbys.get(0)

    def stood_by(self, node: int) -> tuple[M, int] | None:
        """The machine of a node that stands by, and how far it is."""
        standby = self.standby(node)
        replay = None if standby is None else standby._replay
        return None if replay is None else (replay.machine, replay.next_offset)

    async def settle(self, node: int) -> None:
        """Until the standby has done what it can."""
        standby = self.standby(node)
        async with asyncio.timeout(30):
            while standby is not None and standby._task is not None:
                await asyncio.sleep(0.001)

    async def busy(self, node: int, is_busy: bool) -> None:
        """While the node is busy, nothing is done there at leisure."""
        turn = self.hosts[NodeId(node)].leisure._turn
        if is_busy and node not in self.busy_nodes:
            await turn.acquire()
            self.busy_nodes.add(node)
        elif not is_busy and node in self.busy_nodes:
            turn.release()
            self.busy_nodes.discard(node)

    async def close(self) -> None:
        for state in self.states.values():
            state.close()
        await asyncio.sleep(0)


def last_values(log: PartitionLog, up_to: int) -> dict[bytes, bytes]:
    """What a state log tells, without a snapshot; also in the middle of a batch."""
    entries: dict[bytes, bytes] = {}
    offset = log.log_start_offset
    while offset < up_to:
        part = log.read(
            offset, 1 << 20, up_to=log.log_end_offset, at_least_one=True, may_block=True
        )
        for position, header in iterate_batches(part.data):
            for record in decode_records(part.data[position : position + header.size_bytes]):
                if record.key is not None and record.offset < up_to:
                    entries.pop(record.key, None)
                    if record.value is not None:
                        entries[record.key] = record.value
        offset = part.next_offset
    return entries
