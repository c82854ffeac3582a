"""`LocalStore` against a dictionary, with restarts, crashes and torn tails in between."""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.metadata import (
    Compare,
    Delete,
    DeletePrefix,
    KeyValue,
    LeaseId,
    LocalStore,
    LocalStoreLimits,
    Put,
    WatchBatch,
)
from goqueue.metadata.files import Files
from goqueue.metadata.store import Op
from goqueue.model.errors import InvalidRequest

# Small enough that most runs begin several generations.
LIMITS = LocalStoreLimits(log_max_bytes=400)
KEYS = ("/a", "/a/1", "/a/2", "/b", "/b/1")
TTL_MS = 1_000


class UnsyncedFiles(Files):
    def sync(self, file: int) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


class Transact(NamedTuple):
    compares: tuple[Compare, ...]
    success: tuple[Op, ...]
    failure: tuple[Op, ...]
    leased: bool


class Together(NamedTuple):
    """Transactions that run at the same time."""

    transactions: tuple[Transact, ...]


class PassTime(NamedTuple):
    duration_ms: int


class Restart(NamedTuple):
    pass


class Crash(NamedTuple):
    """Stop without closing and cut the log by a share of its last entries."""

    cut_share: float


class Model:
    """The same in the plainest way."""

    def __init__(self) -> None:
        self.revision = 1
        self.kvs: dict[str, KeyValue] = {}
        self.lease: LeaseId | None = None
        self.lease_left_ms = 0

    def copy(self) -> "Model":
        other = Model()
        other.revision, other.kvs = self.revision, dict(self.kvs)
        other.lease, other.lease_left_ms = self.lease, self.lease_left_ms
        return other

    def transact(self, step: Transact) -> bool:
        holds = all(self._holds(compare) for compare in step.compares)
        changed = False
        for op in step.success if holds else step.failure:
            match op:
                case Put(key, value):
                    lease = self.lease if step.leased and self.lease else LeaseId(0)
                    old = self.kvs.get(key)
                    self.kvs[key] = KeyValue(
                        key,
                        value,
                        old.create_revision if old else self.revision + 1,
                        self.revision + 1,
                        old.version + 1 if old else 1,
                        lease,
                    )
                    changed = True
                case Delete(key):
                    changed = self._remove([key]) or changed
                case DeletePrefix(prefix):
                    changed = self._remove([k for k in self.kvs if k.startswith(prefix)]) or changed
        self.revision += changed
        return holds

    def pass_time(self, duration_ms: int) -> None:
        if self.lease is None:
            return
        self.lease_left_ms -= duration_ms
        if self.lease_left_ms <= 0:
            self.revision += self._remove(
                [key for key, kv in self.kvs.items() if kv.lease == self.lease]
            )
            self.lease = None

    def _holds(self, compare: Compare) -> bool:
        kv = self.kvs.get(compare.key)
        assert isinstance(compare.value, int)
        return (kv.version if kv else 0) == compare.value

    def _remove(self, keys: Sequence[str]) -> bool:
        return sum(self.kvs.pop(key, None) is not None for key in keys) > 0


key = st.sampled_from(KEYS)
operation = st.one_of(
    st.builds(Put, key, st.binary(max_size=8)),
    st.builds(Delete, key),
    st.builds(DeletePrefix, st.sampled_from(("/a/", "/b", "/"))),
)
operations = st.lists(operation, max_size=3).map(tuple)
compare = st.builds(
    lambda key, version: Compare.missing(key)._replace(value=version), key, st.integers(0, 2)
)
transact = st.builds(
    Transact, st.lists(compare, max_size=2).map(tuple), operations, operations, st.booleans()
)
step = st.one_of(
    transact,
    transact,
    st.builds(Together, st.lists(transact, min_size=2, max_size=6).map(tuple)),
    st.builds(PassTime, st.sampled_from((TTL_MS // 2, TTL_MS))),
    st.just(Restart()),
    st.builds(Crash, st.floats(0, 1)),
)


class Run:
    """One store and its model, kept in step."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._generation = 0
        self._now_ms = 0
        self._path = root / "0"
        self.model = Model()
        # After each entry of the current log: where it ends, and the model then.
        self._ends: list[tuple[int, Model]] = []
        self.store: LocalStore

    async def open(self) -> None:
        self.store = await LocalStore.open(
            self._path, clock_ms=lambda: self._now_ms, files=UnsyncedFiles(), limits=LIMITS
        )
        self._ends = [(self._log_size_bytes(), self.model.copy())]
        if self.model.lease is None:
            self.model.lease = await self.store.grant_lease(TTL_MS)
        self.model.lease_left_ms = TTL_MS
        await self._settled()

    async def take(self, step: object) -> None:
        match step:
            case Transact():
                await self._transact(step)
            case Together(transactions):
                await asyncio.gather(*(self._transact(each) for each in transactions))
            case PassTime(duration_ms):
                self._now_ms += duration_ms
                self.model.pass_time(duration_ms)
                await self.store.expire_leases()
            case Restart():
                await self.store.close()
                await self.open()
                return
            case Crash(cut_share):
                await self._crash(cut_share)
                return
        await self._settled()

    async def check(self) -> None:
        found = await self.store.get_prefix("")
        assert {kv.key: kv for kv in found.kvs} == self.model.kvs
        assert [kv.key for kv in found.kvs] == sorted(self.model.kvs)
        assert found.revision == self.model.revision
        for prefix in ("/a", "/a/", "/b"):
            under = await self.store.get_prefix(prefix)
            assert {kv.key for kv in under.kvs} == {
                k for k in self.model.kvs if k.startswith(prefix)
            }

    async def _transact(self, step: Transact) -> None:
        """Decided before the first wait, so that the model sees the same order."""
        lease = self.model.lease if step.leased and self.model.lease else LeaseId(0)
        success, failure = (
            tuple(Put(op.key, op.value, lease) if isinstance(op, Put) else op for op in ops)
            for ops in (step.success, step.failure)
        )
        transaction = asyncio.ensure_future(self.store.transact(step.compares, success, failure))
        await asyncio.sleep(0)
        if _is_ambiguous(step.success) or _is_ambiguous(step.failure):
            try:
                await transaction
            except InvalidRequest:
                return
            raise AssertionError("an ambiguous transaction was not refused")
        holds = self.model.transact(step)
        assert (await transaction).succeeded is holds

    async def _settled(self) -> None:
        """Wait for a new generation that may be under way, then note where the log ends."""
        while self.store._committer is not None:
            await asyncio.wait([self.store._committer])
        size_bytes = self._log_size_bytes()
        if size_bytes < self._ends[-1][0]:
            self._ends.clear()
        self._ends.append((size_bytes, self.model.copy()))

    def _log_size_bytes(self) -> int:
        (log,) = self._path.glob("log-*")
        return log.stat().st_size

    async def _crash(self, cut_share: float) -> None:
        self._generation += 1
        crashed = self._root / str(self._generation)
        shutil.copytree(self._path, crashed)
        await self.store.close()
        (log,) = crashed.glob("log-*")
        first_end, last_end = self._ends[0][0], self._ends[-1][0]
        size_bytes = last_end - int((last_end - first_end) * cut_share)
        log.write_bytes(log.read_bytes()[:size_bytes])
        self.model = [model for end, model in self._ends if end <= size_bytes][-1]
        self._path = crashed
        await self.open()


def _is_ambiguous(ops: Sequence[Op]) -> bool:
    put = [op.key for op in ops if isinstance(op, Put)]
    return len(put) != len(set(put)) or any(
        (isinstance(op, Delete) and op.key in put)
        or (isinstance(op, DeletePrefix) and any(k.startswith(op.prefix) for k in put))
        for op in ops
    )


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(step, max_size=25))
def test_store_does_what_a_dictionary_would(steps: list[object]) -> None:
    async def scenario(root: Path) -> None:
        run = Run(root)
        await run.open()
        for each in steps:
            await run.take(each)
            await run.check()
        await run.store.close()

    with tempfile.TemporaryDirectory() as root:
        asyncio.run(scenario(Path(root)))


@settings(max_examples=40, deadline=None)
@given(transactions=st.lists(transact, min_size=1, max_size=20), from_revision=st.integers(1, 12))
def test_watched_batches_rebuild_the_keys(transactions: list[Transact], from_revision: int) -> None:
    """What was there before a revision, plus what a watch from it brings, is what is there."""

    async def scenario(root: Path) -> None:
        run = Run(root)
        await run.open()
        states = {1: run.model.copy().kvs}
        for each in transactions:
            await run.take(each)
            states[run.model.revision] = run.model.copy().kvs
        start = min(from_revision, run.model.revision)
        watch = run.store.watch("/", start + 1)
        last = await run.store.put("/end", b"")
        seen = dict(states[start])
        batches: list[WatchBatch] = []
        async for batch in watch:
            batches.append(batch)
            for event in batch.events:
                assert event.prev == seen.pop(event.kv.key, None)
                if event.kv.version:
                    seen[event.kv.key] = event.kv
            if batch.revision == last:
                break
            assert seen == states[batch.revision]
        assert [batch.revision for batch in batches] == list(range(start + 1, last + 1))
        await run.store.close()

    with tempfile.TemporaryDirectory() as root:
        asyncio.run(scenario(Path(root)))
