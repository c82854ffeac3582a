"""The image follows the metadata store, whatever happens to the store in between."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

import pytest

from goqueue.broker.topics import following
from goqueue.broker.topics.following import MetadataFollower, reconciling_pause_s
from goqueue.metadata.local import LocalStore
from goqueue.metadata.store import Delete, Op, Put, Read, Watch, WatchBatch
from goqueue.model.errors import CompactedRevision, MetadataUnavailable, ShuttingDown
from goqueue.state import metadata_keys as keys
from goqueue.state.metadata_image import ImageChanges, MetadataImage
from tests.busy_machine import stretched

CLUSTER = keys.cluster_id_entry("one")


class FaultyStore:
    """A store whose watches can break, forget and miss things. Reads are as they are."""

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self.watch_errors: list[Exception] = []
        self.missed: set[int] = set()
        self.watches = 0
        self.shown: Read | None = None

    async def transact(self, *ops: Op) -> int:
        return (await self._store.transact((), ops)).revision

    async def close(self) -> None:
        await self._store.close()

    @property
    def unavailable_reason(self) -> str | None:
        return None

    async def get_prefix(self, prefix: str) -> Read:
        return self.shown or await self._store.get_prefix(prefix)

    def watch(self, prefix: str, from_revision: int) -> "FaultyWatch":
        self.watches += 1
        return FaultyWatch(self, self._store.watch(prefix, from_revision))


class FaultyWatch:
    def __init__(self, faults: FaultyStore, watch: Watch) -> None:
        self._faults = faults
        self._watch = watch

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        while True:
            if self._faults.watch_errors:
                raise self._faults.watch_errors.pop(0)
            batch: WatchBatch = await anext(self._watch)
            if batch.revision not in self._faults.missed:
                return batch

    async def aclose(self) -> None:
        await self._watch.aclose()


Scenario = Callable[..., Awaitable[None]]


def with_store(scenario: Scenario) -> Callable[..., None]:
    """Runs a scenario on a store in the test's own folder."""

    def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async def on_loop() -> None:
            local = await LocalStore.open(tmp_path)
            await local.put(*CLUSTER)
            try:
                async with asyncio.timeout(stretched(30)):
                    await scenario(FaultyStore(local), monkeypatch)
            finally:
                await local.close()

        asyncio.run(on_loop())

    run.__name__, run.__doc__ = scenario.__name__, scenario.__doc__
    return run


async def following_of(
    store: FaultyStore, *, reconcile_s: float | None = None, work: asyncio.Event | None = None
) -> MetadataFollower:
    async def prepare(changes: ImageChanges, image: MetadataImage) -> None:
        if work is not None:
            await work.wait()

    def react(changes: ImageChanges, image: MetadataImage) -> None:
        pass

    follower = MetadataFollower(
        store,  # type: ignore[arg-type]
        prepare=prepare,
        react=react,
        reconcile_s=reconcile_s,
    )
    await follower.load()
    follower.start()
    return follower


async def change_at_work(follower: MetadataFollower, store: FaultyStore) -> int:
    """The revision of a change that is being carried out now."""
    revision = await store.transact(group_entry("g", "1"))
    while not follower._applying.locked():
        await asyncio.sleep(0)
    return revision


def group_entry(group: str, value: str) -> Put:
    return Put(*keys.group_config_entry(group, {"consumer.session.timeout.ms": value}))


@with_store
async def test_a_watch_that_breaks_is_begun_again(
    store: FaultyStore, patch: pytest.MonkeyPatch
) -> None:
    patch.setattr(following, "RETRY_FIRST_S", 0.001)
    store.watch_errors = [MetadataUnavailable("cut off"), RuntimeError("unforeseen")]
    follower = await following_of(store)
    done = await store.transact(group_entry("g", "1"))
    await follower.applied(done)
    assert "g" in follower.image.group_configs
    assert store.watches == 3
    await follower.stop()


@with_store
async def test_history_that_is_gone_is_made_up_for(
    store: FaultyStore, patch: pytest.MonkeyPatch
) -> None:
    follower = await following_of(store)
    store.watch_errors = [CompactedRevision("forgotten", 9)]
    await store.transact(group_entry("g", "1"))
    done = await store.transact(group_entry("h", "1"))
    await follower.applied(done)
    assert set(follower.image.group_configs) == {"g", "h"}
    await follower.stop()


@with_store
async def test_what_a_watch_missed_is_found_by_reading_everything(
    store: FaultyStore, patch: pytest.MonkeyPatch
) -> None:
    kept = await store.transact(group_entry("gone", "1"), group_entry("changed", "1"))
    follower = await following_of(store, reconcile_s=0.05)
    store.missed = {kept + 1}
    await store.transact(group_entry("changed", "2"), Delete(keys.group_config_key("gone")))
    seen = await store.transact(group_entry("seen", "1"))
    await follower.applied(seen)
    while "gone" in follower.image.group_configs:
        await asyncio.sleep(0.01)
    assert follower.image.group_configs["changed"] == {"consumer.session.timeout.ms": "2"}
    assert "seen" in follower.image.group_configs
    await follower.stop()


@pytest.mark.parametrize("what", ["older", "another", "empty"])
def test_another_store_or_an_older_copy_changes_nothing(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @with_store
    async def scenario(store: FaultyStore, patch: pytest.MonkeyPatch) -> None:
        done = await store.transact(group_entry("g", "1"))
        follower = await following_of(store, reconcile_s=0.02)
        now = await store.get_prefix(keys.ROOT_PREFIX)
        store.shown = {
            "older": Read(now.kvs[:1], done - 1),
            "another": Read(
                (now.kvs[0]._replace(value=keys.cluster_id_entry("two").value, mod_revision=99),),
                99,
            ),
            "empty": Read((), 99),
        }[what]
        while store.watches < 3:
            await asyncio.sleep(0.01)
        assert "g" in follower.image.group_configs
        assert follower.image.cluster_id == "one"
        store.shown = None
        again = await store.transact(group_entry("h", "1"))
        await follower.applied(again)
        assert "h" in follower.image.group_configs
        await follower.stop()

    scenario(tmp_path, monkeypatch)


@with_store
async def test_a_cluster_that_was_deleted_is_not_followed(
    store: FaultyStore, patch: pytest.MonkeyPatch
) -> None:
    await store.transact(group_entry("g", "1"))
    follower = await following_of(store)
    await store.transact(Delete(CLUSTER.key), Delete(keys.group_config_key("g")))
    while store.watches < 2:
        await asyncio.sleep(0.01)
    assert "g" in follower.image.group_configs
    await follower.stop()


@with_store
async def test_a_revision_that_the_watch_does_not_tell_of_is_read(
    store: FaultyStore, patch: pytest.MonkeyPatch
) -> None:
    patch.setattr(following, "READ_AFTER_S", 0.01)
    follower = await following_of(store, reconcile_s=1_000)
    revision = await store.transact(group_entry("g", "1"))
    await follower.applied(revision)
    store.missed = {revision + 1}
    assert await store.transact(Put("/of another cluster", b"")) == revision + 1
    await follower.applied(revision + 1)
    await follower.stop()


@with_store
async def test_who_waits_for_a_change_is_told_when_it_takes_too_long(
    store: FaultyStore, patch: pytest.MonkeyPatch
) -> None:
    patch.setattr(following, "APPLIED_MAX_S", 0.01)
    follower = await following_of(store)
    with pytest.raises(MetadataUnavailable, match=r"within 0\.01 s"):
        await follower.applied(1_000)
    await follower.stop()
    with pytest.raises(ShuttingDown):
        await follower.applied(1_000)


@with_store
async def test_who_waits_for_a_change_that_is_being_carried_out_is_not_sent_away(
    store: FaultyStore, patch: pytest.MonkeyPatch
) -> None:
    """Such as a topic of a thousand partitions on a busy machine."""
    patch.setattr(following, "APPLIED_MAX_S", 0.01)
    work = asyncio.Event()
    follower = await following_of(store, work=work)
    revision = await change_at_work(follower, store)
    waiting = asyncio.create_task(follower.applied(revision))
    # Not before the time is over.
    await asyncio.sleep(0.05)
    work.set()
    await waiting
    await follower.stop()


@with_store
async def test_who_waits_for_a_change_that_takes_for_ever_is_told_so(
    store: FaultyStore, patch: pytest.MonkeyPatch
) -> None:
    patch.setattr(following, "APPLIED_MAX_S", 0.01)
    patch.setattr(following, "AT_WORK_MAX_S", 0.02)
    follower = await following_of(store, work=asyncio.Event())
    revision = await change_at_work(follower, store)
    with pytest.raises(MetadataUnavailable, match=r"carried it out within 0\.02 s; it goes on"):
        await follower.applied(revision)
    await follower.stop()


@with_store
async def test_who_waits_is_told_that_the_store_was_closed(
    store: FaultyStore, patch: pytest.MonkeyPatch
) -> None:
    follower = await following_of(store)
    waiting = asyncio.create_task(follower.applied(1_000))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(ShuttingDown):
        await waiting
    await follower.stop()


@pytest.mark.parametrize(("key_count", "pause_s"), [(0, 60), (10_000, 60), (1_000_000, 1_000)])
def test_what_is_much_is_read_again_less_often(key_count: int, pause_s: float) -> None:
    assert reconciling_pause_s(60, key_count) == pause_s
