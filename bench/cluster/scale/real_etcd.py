"""What one member of etcd pays for a key, a transaction, and each broker that watches."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.cluster.scale.costs import watched
from bench.cluster.scale.imagined import Size, entries
from bench.process_costs import cpu_s_of, resident_bytes_of
from goqueue.broker.controller.acting import COMPARISONS_MAX
from goqueue.metadata.etcd.client import EtcdAddress
from goqueue.metadata.etcd.store import EtcdStore
from goqueue.metadata.in_flight import in_flight
from goqueue.metadata.store import Compare, KeyValue, Put, Watch
from goqueue.state import metadata_keys as keys
from goqueue.testing.etcd_process import EtcdProcess

WATCHERS: Final = 10
# With and without somebody who watches, of as many keys as the controller changes at once.
TRANSACTIONS: Final = 100
KEYS_EACH: Final = COMPARISONS_MAX - 3
_CALL_MAX_S: Final = 60.0
_FIRST_NEWS: Final = "/bench"


class EtcdFigures(msgspec.Struct):
    keys: int = 0
    # Of each key, after all were written once.
    disk_bytes: float = 0.0
    memory_bytes: float = 0.0
    # Processor seconds of etcd: for each transaction, and for each transaction and watcher.
    transaction_s: float = 0.0
    watcher_s: float = 0.0
    # For each key, when one broker reads everything.
    read_s: float = 0.0
    # By the clock, with eight under way at a time: from one answer to the next.
    answered_s: float = 0.0


async def measure(folder: Path, size: Size) -> EtcdFigures:
    etcd = EtcdProcess(folder)
    etcd.start()
    try:
        address = EtcdAddress(endpoints=(etcd.endpoint,), call_timeout_s=_CALL_MAX_S)
        store = await EtcdStore.open(address)
        try:
            return await _measured(store, etcd.pid, folder, size)
        finally:
            await store.close()
    finally:
        etcd.stop()


async def _measured(store: EtcdStore, pid: int, folder: Path, size: Size) -> EtcdFigures:
    before_bytes = resident_bytes_of(pid)
    puts = [Put(key, value) for key, value, _ in entries(size)]
    for start in range(0, len(puts), COMPARISONS_MAX):
        await store.transact((), puts[start : start + COMPARISONS_MAX])
    figures = EtcdFigures(keys=len(puts))
    figures.memory_bytes = (resident_bytes_of(pid) - before_bytes) / len(puts)
    figures.disk_bytes = (folder / "data/member/snap/db").stat().st_size / len(puts)
    before = cpu_s_of(pid)
    found = await store.get_prefix(keys.PARTITIONS_PREFIX)
    figures.read_s = (cpu_s_of(pid) - before) / len(found.kvs)
    with watched() as changing:
        figures.transaction_s = await _changed(store, pid, watchers=0)
    figures.answered_s = changing.wall_s / TRANSACTIONS
    told_s = await _changed(store, pid, watchers=WATCHERS)
    figures.watcher_s = (told_s - figures.transaction_s) / WATCHERS
    return figures


async def _changed(store: EtcdStore, pid: int, *, watchers: int) -> float:
    """etcd's processor seconds for one transaction, as the controller makes them when a broker
    dies, that all watchers hear of."""
    found = await store.get_prefix(keys.PARTITIONS_PREFIX)
    due = list(_batched(found.kvs, KEYS_EACH))[:TRANSACTIONS]
    watches = [store.watch(keys.ROOT_PREFIX, found.revision + 1) for _ in range(watchers)]
    # They are there before it begins: who comes late is told of the past, which is dearer.
    await store.put(_FIRST_NEWS, b"")
    for watch in watches:
        await _hear(watch, 1)
    hearing = [asyncio.create_task(_hear(watch, len(due))) for watch in watches]
    before = cpu_s_of(pid)
    await in_flight(due, lambda together: _write_again(store, together))
    await asyncio.gather(*hearing)
    spent_s = cpu_s_of(pid) - before
    for watch in watches:
        await watch.aclose()
    return spent_s / len(due)


async def _hear(watch: Watch, count: int) -> None:
    for _ in range(count):
        await anext(watch)


async def _write_again(store: EtcdStore, together: Sequence[KeyValue]) -> None:
    done = await store.transact(
        [Compare.unchanged(kv.key, kv.mod_revision) for kv in together],
        [Put(kv.key, kv.value) for kv in together],
    )
    assert done.succeeded


def _batched(kvs: Sequence[KeyValue], count: int) -> Iterator[Sequence[KeyValue]]:
    for start in range(0, len(kvs), count):
        yield kvs[start : start + count]
