"""The folder of several workers.

broker.lock    locked by the supervisor and all of its workers, until the last of them has ended
workers.json   how many workers there are
store/         the metadata store's
worker-0/ …    a data directory each
"""

import asyncio
import logging
import os
from collections import Counter
from pathlib import Path
from typing import Final, Self

import msgspec

from goqueue.metadata.store import NO_LEASE, Delete, MetadataStore
from goqueue.model.errors import DataDirectoryError
from goqueue.model.names import NodeId
from goqueue.state import metadata_keys as keys
from goqueue.storage.data_directory import (
    FORMAT_FILE,
    HARMLESS,
    LOCK_FILE,
    NODE_FILE,
    WORKERS_FILE,
    check_format,
    in_use,
    refuse_strangers,
)
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import DamagedFile, load, save

logger = logging.getLogger(__name__)

VERSION: Final = 1
STORE_FOLDER: Final = "store"
# Workers whose supervisor was killed need this long to end by themselves, and a bit more.
LOCK_PATIENCE_S: Final = 12.0
_LOCK_RETRY_S: Final = 0.1


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `workers.json`."""

    version: int
    count: int
    # The folder was that of a single broker, and not all of it is that of worker 0 yet.
    is_taking_over: bool = False


def is_of_workers(path: Path) -> bool:
    return (path / WORKERS_FILE).is_file()


def worker_folder(path: Path, worker: int) -> Path:
    return path / f"worker-{worker}"


class WorkersFolder:
    """Locked from `open` to `close`."""

    def __init__(self, path: Path, disk: Disk, lock: int) -> None:
        self.path = path
        self._disk = disk
        # A descriptor: processes that inherit it hold the lock, too.
        self.lock = lock

    @classmethod
    async def open(cls, path: Path) -> Self:
        """`DataDirectoryError` where another broker has it for longer than an end takes."""
        disk = Disk()
        try:
            disk.mkdir(path)
            lock = disk.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise DataDirectoryError(
                f"data directory {path} cannot be used: {error}; check that it is a folder this "
                "user may write to"
            ) from error
        folder = cls(path, disk, lock)
        try:
            await folder._take_lock()
        except BaseException:
            folder.close()
            raise
        return folder

    async def _take_lock(self) -> None:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + LOCK_PATIENCE_S
        is_told = False
        while True:
            try:
                self._disk.lock(self.lock)
                return
            except BlockingIOError:
                # Those of a single broker end with it.
                if loop.time() > give_up_at or not is_of_workers(self.path):
                    raise in_use(self.path) from None
            if not is_told:
                is_told = True
                logger.warning(
                    "%s is in use; this waits a little for its processes to end", self.path
                )
            await asyncio.sleep(_LOCK_RETRY_S)

    def close(self) -> None:
        os.close(self.lock)

    @property
    def store_path(self) -> Path:
        return self.path / STORE_FOLDER

    # --- before workers start -------------------------------------------------------------

    def check(self, count: int) -> None:
        """Blocking: make it a folder of workers, unless it is one; what a single broker left in it
        goes to the first worker. `DataDirectoryError` where it is something else."""
        known = self._load()
        if known is None:
            known = self._begin(count)
        if known.is_taking_over:
            self._move_to_first()

    def _begin(self, count: int) -> Workers:
        names = self._disk.listdir(self.path)
        is_of_one = FORMAT_FILE in names
        if NODE_FILE in names:
            raise DataDirectoryError(
                f"{self.path} belongs to a node of a cluster with etcd; start it with --cluster, "
                "or give another --data-dir"
            )
        if is_of_one:
            check_format(self._disk, self.path)
        else:
            refuse_strangers(self._disk, self.path)
        known = Workers(version=VERSION, count=1 if is_of_one else count, is_taking_over=is_of_one)
        self._save(known)
        return known

    def _move_to_first(self) -> None:
        """Once begun it is done to the end, if need be by the next start."""
        first = worker_folder(self.path, 0)
        self._disk.mkdir(first)
        ours = HARMLESS | {WORKERS_FILE, STORE_FOLDER, first.name}
        for name in sorted(set(self._disk.listdir(self.path)) - ours):
            self._disk.rename(self.path / name, first / name)
        self._disk.fsync_dir(first)
        self._disk.fsync_dir(self.path)

    async def fit(self, store: MetadataStore, count: int) -> None:
        """Before workers use the store: it knows what a single broker had, and nothing is left to
        workers that are not started. `DataDirectoryError` where something would be."""
        known = self._load()
        assert known is not None
        if known.is_taking_over:
            await self._take_over(store)
        await _end_sessions(store)
        await self._let_go(store, count)
        if known.count != count or known.is_taking_over:
            logger.info("%s has %d workers now; there were %d", self.path, count, known.count)
            self._save(Workers(version=VERSION, count=count))

    async def _take_over(self, store: MetadataStore) -> None:
        # It is written last: an earlier try may have come that far.
        if (await store.get(keys.CLUSTER_ID_KEY)).one is not None:
            return
        from goqueue.broker.membership.adopting import adopt_into

        topics = await adopt_into(store, worker_folder(self.path, 0), NodeId(0))
        logger.info("%d topics of a single broker are those of worker 0 now", topics)

    async def _let_go(self, store: MetadataStore, count: int) -> None:
        """Forget workers beyond `count`, which must have nothing."""
        held: Counter[NodeId] = Counter()
        for kv in (await store.get_prefix(keys.PARTITIONS_PREFIX)).kvs:
            held.update(keys.decode_partition(kv.key, kv.value).replicas)
        beyond = sorted(node for node in held if node >= count)
        if beyond:
            holders = ", ".join(f"{held[node]} on worker {node}" for node in beyond)
            drains = " and ".join(f"`goqueue cluster drain {node} --wait`" for node in beyond)
            raise DataDirectoryError(
                f"workers: {count}, but {self.path} has partitions on others ({holders}); start it "
                f"with --workers {beyond[-1] + 1}, or drain those first: {drains}"
            )
        for kv in (await store.get_prefix(keys.NODES_PREFIX)).kvs:
            match keys.parse_key(kv.key):
                case keys.NodeKey(node) if node >= count:
                    await store.transact((), [Delete(kv.key)])
                    logger.info("worker %d is forgotten; it had nothing", node)

    # --- workers.json ---------------------------------------------------------------------

    def _load(self) -> Workers | None:
        try:
            known = load(self._disk, self.path / WORKERS_FILE, Workers)
        except DamagedFile as error:
            raise DataDirectoryError(f"{error}; restore the file from a copy") from error
        if known is not None and known.version != VERSION:
            raise DataDirectoryError(
                f"{self.path / WORKERS_FILE} has version {known.version}; this release reads "
                f"version {VERSION}: use the release that wrote it"
            )
        return known

    def _save(self, known: Workers) -> None:
        save(self._disk, self.path / WORKERS_FILE, known)


async def _end_sessions(store: MetadataStore) -> None:
    """Of workers of an earlier run: none of them is there any more, for the folder is locked."""
    leases = {kv.lease for kv in (await store.get_prefix(keys.ROOT_PREFIX)).kvs}
    for lease in sorted(leases - {NO_LEASE}):
        await store.revoke(lease)
