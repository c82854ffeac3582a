"""What every `MetadataStore` does. A new store joins by adding its harness to `HARNESSES`."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Protocol

import pytest

from goqueue.metadata import (
    Compare,
    CompareOp,
    CompareTarget,
    Delete,
    DeletePrefix,
    EventKind,
    Get,
    GetPrefix,
    KeyValue,
    LeaseId,
    LocalStore,
    LocalStoreLimits,
    MetadataStore,
    Put,
    Watch,
    WatchBatch,
)
from goqueue.metadata.etcd.client import EtcdAddress
from goqueue.metadata.etcd.store import EtcdStore
from goqueue.metadata.over_socket import SocketStore, serve_store
from goqueue.metadata.store import Op
from goqueue.model.errors import (
    CompactedRevision,
    GoQueueError,
    InvalidRequest,
    LeaseNotFound,
)
from tests.etcd_server import EtcdServer, compact

# A watch that should bring something brings it in far less.
PATIENCE_S = 60
# Real seconds with etcd, with room for a busy machine.
TTL_MS = 5_000


class Harness(Protocol):
    async def open(self) -> MetadataStore:
        """The same store each time, with what was left in it."""
        ...

    async def pass_time(self, store: MetadataStore, duration_ms: int) -> None: ...

    async def forget_history(self, store: MetadataStore) -> None:
        """Make the store drop all history but the latest revision, which it may write itself."""
        ...

    def end(self) -> None: ...


class LocalHarness:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._now_ms = 1_000
        self._limits = LocalStoreLimits(history_max_revisions=50)

    async def open(self) -> MetadataStore:
        return await self._open()

    async def _open(self) -> LocalStore:
        return await LocalStore.open(self._path, clock_ms=lambda: self._now_ms, limits=self._limits)

    async def pass_time(self, store: MetadataStore, duration_ms: int) -> None:
        assert isinstance(store, LocalStore)
        self._now_ms += duration_ms
        await store.expire_leases()

    async def forget_history(self, store: MetadataStore) -> None:
        for _ in range(self._limits.history_max_revisions):
            await store.put("/elsewhere", b"")

    def end(self) -> None:
        pass


class SocketHarness(LocalHarness):
    """The local store, used over a socket as by another process."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._served: LocalStore | None = None

    async def open(self) -> MetadataStore:
        self._served = await self._open()
        ours, theirs = socket.socketpair()
        serving = asyncio.create_task(serve_store(self._served, ours, name="the test"))
        return await _ServedStore.begin(self._served, serving, theirs)

    async def pass_time(self, store: MetadataStore, duration_ms: int) -> None:
        assert self._served is not None
        await super().pass_time(self._served, duration_ms)


class _ServedStore(SocketStore):
    """Its end is that of the store behind it."""

    @classmethod
    async def begin(
        cls, served: LocalStore, serving: asyncio.Task[None], connection: socket.socket
    ) -> "_ServedStore":
        store = await cls.open(connection)
        store._behind = served, serving
        return store

    _behind: tuple[LocalStore, asyncio.Task[None]]

    async def close(self) -> None:
        served, serving = self._behind
        await super().close()
        await serving
        await served.close()


class EtcdHarness:
    """A server of its own for each test; reopening starts it again."""

    def __init__(self, path: Path) -> None:
        self._server = EtcdServer(path)

    async def open(self) -> EtcdStore:
        self._server.stop()
        self._server.start()
        return await EtcdStore.open(EtcdAddress(endpoints=(self._server.endpoint,)))

    async def pass_time(self, store: MetadataStore, duration_ms: int) -> None:
        # etcd looks for expired leases twice a second, and then needs time to end them.
        await asyncio.sleep(duration_ms / 1_000 + (3 if duration_ms >= TTL_MS else 0))

    async def forget_history(self, store: MetadataStore) -> None:
        await store.put("/elsewhere", b"")
        await store.put("/elsewhere", b"")
        revision = (await store.get("/elsewhere")).revision
        await compact(self._server.endpoint, revision)

    def end(self) -> None:
        self._server.stop()


HARNESSES: list[Callable[[Path], Harness]] = [LocalHarness, SocketHarness, EtcdHarness]


@pytest.fixture(params=HARNESSES, ids=lambda harness: harness.__name__)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    made: Harness = request.param(tmp_path)
    yield made
    made.end()


def on_store(
    test: Callable[[MetadataStore], Awaitable[None]],
) -> Callable[[Harness], None]:
    """Run a test on a store that is open and empty."""

    async def run(harness: Harness) -> None:
        store = await harness.open()
        try:
            await test(store)
        finally:
            await store.close()

    def wrapper(harness: Harness) -> None:
        asyncio.run(run(harness))

    wrapper.__name__, wrapper.__doc__ = test.__name__, test.__doc__
    return wrapper


def on_harness(
    test: Callable[[Harness], Awaitable[None]],
) -> Callable[[Harness], None]:
    """Run a test that opens its store itself."""

    @wraps(test)
    def wrapper(harness: Harness) -> None:
        async def run() -> None:
            await test(harness)

        asyncio.run(run())

    return wrapper


async def take(watch: Watch, count: int) -> list[WatchBatch]:
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(watch) for _ in range(count)]


def told(batch: WatchBatch) -> tuple[int, list[tuple[EventKind, KeyValue]]]:
    """What every store tells; what a key was before, only some do."""
    return batch.revision, [(event.kind, event.kv) for event in batch.events]


# --- keys and revisions -------------------------------------------------------------------


@on_store
async def test_empty_store_is_at_revision_one(store: MetadataStore) -> None:
    assert await store.get_prefix("") == ((), 1)


@on_store
async def test_put_counts_revisions_and_versions(store: MetadataStore) -> None:
    assert await store.put("/a", b"1") == 2
    assert await store.put("/b", b"2") == 3
    assert await store.put("/a", b"3") == 4
    assert await store.get("/a") == ((KeyValue("/a", b"3", 2, 4, 2),), 4)
    assert (await store.get("/b")).one == KeyValue("/b", b"2", 3, 3, 1)


@on_store
async def test_deleted_key_starts_anew(store: MetadataStore) -> None:
    await store.put("/a", b"1")
    await store.put("/a", b"2")
    assert await store.delete("/a") == KeyValue("/a", b"2", 2, 3, 2)
    assert await store.get("/a") == ((), 4)
    await store.put("/a", b"3")
    assert (await store.get("/a")).one == KeyValue("/a", b"3", 5, 5, 1)


@on_store
async def test_deleting_nothing_is_no_revision(store: MetadataStore) -> None:
    await store.put("/a", b"")
    assert await store.delete("/b") is None
    result = await store.transact((), (DeletePrefix("/c"),))
    assert (result.revision, result.responses) == (2, ((),))


@on_store
async def test_prefix_reads_are_ordered_and_exact(store: MetadataStore) -> None:
    for key in ("/t/b", "/t/a/2", "/t", "/t/", "/u", "/t/a/10", "/s", "/t/é"):
        await store.put(key, key.encode())
    found = await store.get_prefix("/t/")
    assert [kv.key for kv in found.kvs] == ["/t/", "/t/a/10", "/t/a/2", "/t/b", "/t/é"]
    assert found.revision == 9
    assert len((await store.get_prefix("")).kvs) == 8


# --- transactions -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "actual"),
    [
        (CompareTarget.VERSION, 2),
        (CompareTarget.CREATE_REVISION, 2),
        (CompareTarget.MOD_REVISION, 4),
        (CompareTarget.VALUE, b"m"),
    ],
)
def test_compares(harness: Harness, target: CompareTarget, actual: int | bytes) -> None:
    lower: int | bytes = b"a" if isinstance(actual, bytes) else actual - 1
    higher: int | bytes = b"z" if isinstance(actual, bytes) else actual + 1

    @on_store
    async def check(store: MetadataStore) -> None:
        await store.put("/k", b"first")
        await store.put("/other", b"")
        await store.put("/k", b"m")
        for op, value, holds in (
            (CompareOp.EQUAL, actual, True),
            (CompareOp.EQUAL, lower, False),
            (CompareOp.NOT_EQUAL, actual, False),
            (CompareOp.NOT_EQUAL, higher, True),
            (CompareOp.LESS, actual, False),
            (CompareOp.LESS, higher, True),
            (CompareOp.GREATER, actual, False),
            (CompareOp.GREATER, lower, True),
        ):
            result = await store.transact((Compare("/k", target, op, value),), ())
            assert result.succeeded is holds, (op, value)

    check(harness)


@on_store
async def test_missing_key_has_version_zero_and_no_value(store: MetadataStore) -> None:
    assert (await store.transact((Compare.missing("/k"),), ())).succeeded
    assert (await store.transact((Compare.unchanged("/k", 0),), ())).succeeded
    assert not (await store.transact((Compare.exists("/k"),), ())).succeeded
    for op in CompareOp:
        compare = Compare("/k", CompareTarget.VALUE, op, b"")
        assert not (await store.transact((compare,), ())).succeeded, op
    await store.put("/k", b"")
    assert (await store.transact((Compare.exists("/k"),), ())).succeeded
    assert not (await store.transact((Compare.missing("/k"),), ())).succeeded


@on_store
async def test_compare_refuses_a_value_of_the_wrong_type(store: MetadataStore) -> None:
    for target, value in ((CompareTarget.VERSION, b"1"), (CompareTarget.VALUE, 1)):
        with pytest.raises(InvalidRequest):
            await store.transact((Compare("/k", target, CompareOp.EQUAL, value),), ())


@on_store
async def test_transaction_is_one_revision(store: MetadataStore) -> None:
    await store.put("/old", b"")
    result = await store.transact(
        (Compare.missing("/a"),), (Put("/a", b"1"), Put("/b", b"2"), Delete("/old"))
    )
    assert (result.succeeded, result.revision) == (True, 3)
    found = await store.get_prefix("/")
    assert found == ((KeyValue("/a", b"1", 3, 3, 1), KeyValue("/b", b"2", 3, 3, 1)), 3)


@on_store
async def test_all_compares_must_hold(store: MetadataStore) -> None:
    await store.put("/a", b"1")
    result = await store.transact(
        (Compare.exists("/a"), Compare.exists("/b")), (Put("/a", b"2"),), (Put("/c", b"3"),)
    )
    assert (result.succeeded, result.revision) == (False, 3)
    assert [(kv.key, kv.value) for kv in (await store.get_prefix("")).kvs] == [
        ("/a", b"1"),
        ("/c", b"3"),
    ]


@on_store
async def test_failed_compare_can_read_what_is_there(store: MetadataStore) -> None:
    await store.put("/a", b"theirs")
    result = await store.transact((Compare.missing("/a"),), (Put("/a", b"mine"),), (Get("/a"),))
    assert result == (False, 2, ((KeyValue("/a", b"theirs", 2, 2, 1),),))


@on_store
async def test_responses_follow_the_operations(store: MetadataStore) -> None:
    await store.put("/d/1", b"x")
    await store.put("/d/2", b"y")
    result = await store.transact(
        (),
        (
            Put("/a", b"new"),
            Get("/a"),
            GetPrefix("/d/"),
            Delete("/d/1"),
            GetPrefix("/d/"),
            DeletePrefix("/d/"),
            Get("/d/2"),
        ),
    )
    one, two = KeyValue("/d/1", b"x", 2, 2, 1), KeyValue("/d/2", b"y", 3, 3, 1)
    put = KeyValue("/a", b"new", 4, 4, 1)
    assert result.responses == ((), (put,), (one, two), (one,), (two,), (two,), ())
    assert (await store.transact((), (Put("/a", b""),))).responses == ((put,),)


@pytest.mark.parametrize(
    "ops",
    [
        (Put("/a", b"1"), Put("/a", b"2")),
        (Put("/a", b"1"), Delete("/a")),
        (Delete("/a"), Put("/a", b"1")),
        (DeletePrefix("/"), Put("/a", b"1")),
        (Put("", b"1"),),
    ],
)
def test_ambiguous_writes_are_refused(harness: Harness, ops: tuple[Op, ...]) -> None:
    @on_store
    async def check(store: MetadataStore) -> None:
        await store.put("/a", b"0")
        with pytest.raises(InvalidRequest):
            await store.transact((), ops)
        with pytest.raises(InvalidRequest):
            await store.transact((), (), ops)
        assert await store.get_prefix("") == ((KeyValue("/a", b"0", 2, 2, 1),), 2)

    check(harness)


@on_store
async def test_one_of_many_creators_wins(store: MetadataStore) -> None:
    results = await asyncio.gather(
        *(store.transact((Compare.missing("/k"),), (Put("/k", b"%d" % i),)) for i in range(20))
    )
    winners = [i for i, result in enumerate(results) if result.succeeded]
    kv = (await store.get("/k")).one
    assert kv is not None
    assert [b"%d" % i for i in winners] == [kv.value]


@on_store
async def test_compare_and_set_loses_no_increment(store: MetadataStore) -> None:
    async def increment() -> None:
        while True:
            kv = (await store.get("/n")).one
            count, revision = (int(kv.value), kv.mod_revision) if kv else (0, 0)
            put = Put("/n", b"%d" % (count + 1))
            if (await store.transact((Compare.unchanged("/n", revision),), (put,))).succeeded:
                return

    await asyncio.gather(*(increment() for _ in range(12)))
    kv = (await store.get("/n")).one
    assert kv is not None
    assert (kv.value, kv.version) == (b"12", 12)


@on_harness
async def test_everything_is_there_after_reopening(harness: Harness) -> None:
    store = await harness.open()
    for i in range(5):
        await store.put(f"/k/{i % 3}", b"%d" % i)
    await store.delete("/k/0")
    before = await store.get_prefix("")
    await store.close()
    store = await harness.open()
    assert await store.get_prefix("") == before
    assert await store.put("/k/0", b"") == before.revision + 1
    await store.close()


# --- watches ------------------------------------------------------------------------------


@on_store
async def test_watch_replays_the_past_and_goes_on(store: MetadataStore) -> None:
    await store.put("/a", b"1")
    await store.put("/a", b"2")
    watch = store.watch("/", 2)
    first = KeyValue("/a", b"1", 2, 2, 1)
    second = KeyValue("/a", b"2", 2, 3, 2)
    assert [told(batch) for batch in await take(watch, 2)] == [
        (2, [(EventKind.PUT, first)]),
        (3, [(EventKind.PUT, second)]),
    ]
    await store.delete("/a")
    gone = KeyValue("/a", b"", 0, 4, 0)
    [last] = await take(watch, 1)
    assert told(last) == (4, [(EventKind.DELETE, gone)])
    await watch.aclose()


@on_store
async def test_read_then_watch_has_no_gap(store: MetadataStore) -> None:
    await store.put("/a", b"1")
    revision = (await store.get_prefix("/")).revision
    await store.put("/a", b"2")
    watch = store.watch("/", revision + 1)
    assert [batch.revision for batch in await take(watch, 1)] == [revision + 1]
    await watch.aclose()


@on_store
async def test_watch_sees_a_transaction_as_one_batch(store: MetadataStore) -> None:
    watch = store.watch("/t/", 1)
    await store.transact((), (Put("/t/a", b""), Put("/u", b""), Put("/t/b", b"")))
    await store.put("/u", b"not watched")
    await store.transact((), (DeletePrefix("/t/"),))
    batches = await take(watch, 2)
    assert [batch.revision for batch in batches] == [2, 4]
    assert [{change[0]: change[1] for change in batch.changes} for batch in batches] == [
        {"/t/a": b"", "/t/b": b""},
        {"/t/a": None, "/t/b": None},
    ]
    await watch.aclose()


@on_store
async def test_watches_see_every_revision_once_and_in_order(store: MetadataStore) -> None:
    early = store.watch("/k/", 1)
    early_batches = asyncio.create_task(take(early, 40))
    await asyncio.gather(*(store.put(f"/k/{i % 7}", b"%d" % i) for i in range(40)))
    late = store.watch("/k/", 1)
    for batches in (await early_batches, await take(late, 40)):
        assert [batch.revision for batch in batches] == list(range(2, 42))
        assert [batch.events[0].kv.mod_revision for batch in batches] == list(range(2, 42))
    await early.aclose()
    await late.aclose()


@on_store
async def test_watch_from_the_future_waits(store: MetadataStore) -> None:
    watch = store.watch("/", 4)
    for i in range(4):
        await store.put("/a", b"%d" % i)
    assert [batch.revision for batch in await take(watch, 2)] == [4, 5]
    await watch.aclose()


@on_store
async def test_cancelled_wait_loses_nothing(store: MetadataStore) -> None:
    watch = store.watch("/", 1)
    waiting = asyncio.ensure_future(anext(watch))
    await store.get("/")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await store.put("/a", b"1")
    assert [batch.revision for batch in await take(watch, 1)] == [2]
    await watch.aclose()


@on_store
async def test_closed_watch_ends(store: MetadataStore) -> None:
    watch = store.watch("/", 1)
    waiting = asyncio.create_task(take_all(watch))
    await store.put("/a", b"1")
    await watch.aclose()
    assert await waiting in ([], [2])


@on_harness
async def test_watch_ends_with_the_store(harness: Harness) -> None:
    store = await harness.open()
    watch = store.watch("/", 1)
    await store.put("/a", b"1")
    assert [batch.revision for batch in await take(watch, 1)] == [2]
    watching = asyncio.create_task(take_all(watch))
    await store.put("/elsewhere", b"")
    await store.close()
    assert await watching in ([], [3])


async def take_all(watch: Watch) -> list[int]:
    async with asyncio.timeout(PATIENCE_S):
        return [batch.revision async for batch in watch]


@on_harness
async def test_forgotten_history_is_an_error(harness: Harness) -> None:
    store = await harness.open()
    await store.put("/a", b"1")
    slow = store.watch("/a", 2)
    await store.put("/a", b"2")
    await harness.forget_history(store)
    # A watch may have read ahead of who waits for it.
    with contextlib.suppress(CompactedRevision):
        assert [batch.revision for batch in await take(slow, 1)] == [2]
    with pytest.raises(CompactedRevision) as caught:
        await take(store.watch("/a", 2), 1)
    assert caught.value.oldest_revision > 2
    found = await store.get_prefix("/a")
    assert found.kvs[0].value == b"2"
    fresh = store.watch("/a", found.revision + 1)
    await store.put("/a", b"3")
    assert [batch.revision for batch in await take(fresh, 1)] == [found.revision + 1]
    await store.close()


@on_store
async def test_watch_needs_a_revision(store: MetadataStore) -> None:
    with pytest.raises(InvalidRequest):
        store.watch("/", 0)


# --- leases -------------------------------------------------------------------------------


@on_harness
async def test_expired_lease_takes_its_keys_in_one_revision(harness: Harness) -> None:
    store = await harness.open()
    lease = await store.grant_lease(TTL_MS)
    await store.put("/b", b"", lease)
    await store.put("/a", b"", lease)
    await store.put("/kept", b"")
    kv = (await store.get("/a")).one
    assert kv is not None
    assert kv.lease == lease
    watch = store.watch("/", 5)
    await harness.pass_time(store, TTL_MS)
    (batch,) = await take(watch, 1)
    assert sorted(batch.changes) == [("/a", None, batch.revision), ("/b", None, batch.revision)]
    assert [kv.key for kv in (await store.get_prefix("")).kvs] == ["/kept"]
    with pytest.raises(LeaseNotFound):
        await store.keep_alive(lease)
    await store.close()


@on_harness
async def test_keep_alive_starts_the_time_again(harness: Harness) -> None:
    store = await harness.open()
    lease = await store.grant_lease(TTL_MS)
    await store.put("/a", b"", lease)
    for _ in range(3):
        await harness.pass_time(store, TTL_MS * 3 // 5)
        assert await store.keep_alive(lease) == TTL_MS
    assert (await store.get("/a")).kvs
    await harness.pass_time(store, TTL_MS)
    assert not (await store.get("/a")).kvs
    await store.close()


@on_harness
async def test_put_moves_a_key_between_leases(harness: Harness) -> None:
    store = await harness.open()
    short, long = await store.grant_lease(TTL_MS), await store.grant_lease(10 * TTL_MS)
    await store.put("/freed", b"", short)
    await store.put("/moved", b"", short)
    await store.put("/freed", b"")
    await store.put("/moved", b"", long)
    await harness.pass_time(store, TTL_MS)
    assert [(kv.key, kv.lease) for kv in (await store.get_prefix("")).kvs] == [
        ("/freed", 0),
        ("/moved", long),
    ]
    await store.revoke(long)
    assert [kv.key for kv in (await store.get_prefix("")).kvs] == ["/freed"]
    await store.close()


@on_store
async def test_revoke_is_one_revision_or_none(store: MetadataStore) -> None:
    lease = await store.grant_lease(TTL_MS)
    await store.transact((), (Put("/a", b"", lease), Put("/b", b"", lease)))
    await store.revoke(lease)
    assert await store.get_prefix("") == ((), 3)
    await store.revoke(await store.grant_lease(TTL_MS))
    assert (await store.get("/a")).revision == 3


@on_store
async def test_unknown_lease_is_refused(store: MetadataStore) -> None:
    unknown = LeaseId(999_999)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.put("/a", b"", unknown),
        lambda: store.transact((), (Put("/b", b""), Put("/a", b"", unknown))),
        lambda: store.keep_alive(unknown),
        lambda: store.revoke(unknown),
    ]
    for call in calls:
        with pytest.raises(LeaseNotFound):
            await call()
    assert await store.get_prefix("") == ((), 1)


@on_harness
async def test_leases_outlive_a_reopening_with_their_full_time(harness: Harness) -> None:
    store = await harness.open()
    lease = await store.grant_lease(TTL_MS)
    await store.put("/a", b"", lease)
    await harness.pass_time(store, TTL_MS * 3 // 5)
    await store.close()
    store = await harness.open()
    assert await store.grant_lease(TTL_MS) != lease
    await harness.pass_time(store, TTL_MS * 3 // 5)
    assert (await store.get("/a")).kvs
    await harness.pass_time(store, TTL_MS)
    assert not (await store.get("/a")).kvs
    await store.close()


@on_store
async def test_lease_needs_a_time(store: MetadataStore) -> None:
    for ttl_ms in (0, -1):
        with pytest.raises(InvalidRequest):
            await store.grant_lease(ttl_ms)


@on_harness
async def test_closed_store_refuses(harness: Harness) -> None:
    store = await harness.open()
    await store.close()
    await store.close()
    for call in (store.get("/a"), store.get_prefix("/a"), store.put("/a", b"")):
        with pytest.raises(GoQueueError):
            await call
