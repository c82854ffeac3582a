"""`goqueue serve --workers N`: starts the workers, and starts again those that die.

It does nothing that could fail on account of a client, and has what must outlive each worker: the
metadata store, the ports and the folder. When it is killed, its workers end by themselves.
"""

import asyncio
import gc
import logging
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from goqueue.broker.security.master_key import MasterKey
from goqueue.metadata.local import LocalStore
from goqueue.metadata.store import NO_LEASE, MetadataStore
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.errors import GoQueueError, LeaseNotFound
from goqueue.model.names import NodeId
from goqueue.server.addresses import Addresses, StartFailed
from goqueue.server.exposure import check_exposure
from goqueue.server.log_lines import configure_logging
from goqueue.server.ready_report import report_ready
from goqueue.server.stop_signals import end_at_once, on_hang_up, on_stop_signals
from goqueue.server.workers.child import Child
from goqueue.server.workers.folder import STORE_FOLDER, WorkersFolder, worker_folder
from goqueue.server.workers.ports import KeptPorts
from goqueue.server.workers.restarts import Restarts
from goqueue.server.workers.settings import check_settings, master_key_file, worker_settings
from goqueue.state import metadata_keys as keys
from goqueue.storage.owner_only import take_from_others

log = logging.getLogger(__name__)

# A worker stops within five seconds; one with thousands of partitions on a slow disk needs longer.
STOP_MAX_S: Final = 60.0


class _End(NamedTuple):
    """Of one run. `was_told`: the worker said itself why it cannot start."""

    words: str
    served_s: float = 0.0
    was_told: bool = False


class WorkerGivenUp(GoQueueError):
    """A worker dies over and over."""

    code = "worker_given_up"


def supervise(config: BrokerConfig, *, ready_file: Path | None = None) -> None:
    """Until SIGTERM or SIGINT; raises `GoQueueError` where it cannot start or go on."""
    configure_logging(level=config.log_level, line_format=config.log_format)
    check_settings(config)
    check_exposure(config)
    # It was switched off for the imports of a broker.
    gc.enable()
    try:
        asyncio.run(_run(config, ready_file))
    finally:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)


async def _run(config: BrokerConfig, ready_file: Path | None) -> None:
    folder = await WorkersFolder.open(config.data_dir)
    try:
        if config.security_enabled:
            take_from_others(folder.path, (STORE_FOLDER,))
        ports = KeptPorts.take(config)
        try:
            await asyncio.to_thread(folder.check, config.workers)
            if config.security_enabled:
                may_make = not config.security_master_key_file
                MasterKey.load(master_key_file(config), may_make=may_make)
            store = await LocalStore.open(folder.store_path)
            try:
                await folder.fit(store, config.workers)
                await Supervisor(config, folder, ports, store).run(ready_file)
            finally:
                await store.close()
        finally:
            ports.close()
    except OSError as error:
        raise StartFailed(f"data directory {config.data_dir}: {error}") from error
    finally:
        folder.close()


class Supervisor:
    def __init__(
        self, config: BrokerConfig, folder: WorkersFolder, ports: KeptPorts, store: MetadataStore
    ) -> None:
        self._config = config
        self._store = store
        self._ports = ports
        self._workers = [
            KeptWorker(
                worker,
                worker_settings(
                    config,
                    worker,
                    worker_folder(folder.path.absolute(), worker),
                    kafka_port=ports.kafka[worker],
                    http_port=ports.http,
                ),
                store,
                folder.lock,
            )
            for worker in range(config.workers)
        ]

    async def run(self, ready_file: Path | None) -> None:
        stop_requested = asyncio.Event()
        on_stop_signals(stop_requested, again=self._end_at_once)
        if self._config.tls_certificate_file:
            on_hang_up(self._reload_certificates)
        stopping = asyncio.create_task(stop_requested.wait())
        kept = [asyncio.create_task(worker.keep()) for worker in self._workers]
        ready = asyncio.create_task(self._all_ready())
        try:
            await asyncio.wait({ready, stopping, *kept}, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                self._report(ready_file)
                await asyncio.wait({stopping, *kept}, return_when=asyncio.FIRST_COMPLETED)
            for each in kept:
                if each.done():
                    # It ends by itself only with a reason.
                    each.result()
            log.info("stopping %d workers", len(self._workers))
        finally:
            ready.cancel()
            stopping.cancel()
            await self._stop(kept)

    async def _all_ready(self) -> None:
        for worker in self._workers:
            await worker.ready.wait()

    def _report(self, ready_file: Path | None) -> None:
        addresses = [
            Addresses(
                kafka_host=self._config.host,
                kafka_port=port,
                http_host=self._config.host,
                http_port=self._ports.http,
                has_tls=bool(self._config.tls_certificate_file),
            )
            for port in self._ports.kafka
        ]
        pids = [worker.pid for worker in self._workers]
        report_ready(addresses, self._config.data_dir, ready_file, worker_pids=pids)

    def _end_at_once(self, number: signal.Signals) -> None:
        self._kill_all()
        end_at_once(number)

    def _reload_certificates(self) -> None:
        for worker in self._workers:
            worker.signal(signal.SIGHUP)

    def _kill_all(self) -> None:
        for worker in self._workers:
            worker.signal(signal.SIGKILL)

    async def _stop(self, kept: "list[asyncio.Task[None]]") -> None:
        for worker in self._workers:
            worker.stop()
        _, late = await asyncio.wait(kept, timeout=STOP_MAX_S)
        if late:
            log.error("workers that did not stop within %g s are killed", STOP_MAX_S)
            self._kill_all()
        await asyncio.gather(*kept, return_exceptions=True)


class KeptWorker:
    """One worker over all its runs."""

    def __init__(
        self, worker: int, settings: Mapping[str, str], store: MetadataStore, lock: int
    ) -> None:
        self._worker = worker
        self._settings = settings
        self._store = store
        self._lock = lock
        self._child: Child | None = None
        self._stopping = asyncio.Event()
        self._restarts = Restarts()
        # From its first run on.
        self.ready = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    def signal(self, number: signal.Signals) -> None:
        if self._child is not None:
            self._child.signal(number)

    def stop(self) -> None:
        self._stopping.set()
        self.signal(signal.SIGTERM)

    async def keep(self) -> None:
        """Until `stop`; `StartFailed` where it cannot start, `WorkerGivenUp` where it dies again
        and again."""
        while not self._stopping.is_set():
            end = await self._run_once()
            if self._stopping.is_set():
                return
            if not self.ready.is_set() and end.was_told:
                raise StartFailed(f"worker {self._worker} {end.words}")
            wait_s = self._restarts.after_death(end.served_s)
            if wait_s is None:
                raise WorkerGivenUp(
                    f"worker {self._worker} died {self._restarts.deaths} times in a row, and is "
                    f"not started again: the last time it {end.words}. What its log lines "
                    "above say must be mended first; nothing that was acknowledged is lost"
                )
            log.error(
                "worker %d %s; it is started again%s",
                self._worker,
                end.words,
                f" in {wait_s:g} s" if wait_s else "",
            )
            await self._end_session()
            await self._wait(wait_s)

    async def _run_once(self) -> _End:
        try:
            child = await Child.start(self._worker, self._settings, self._store, self._lock)
        except OSError as error:
            return _End(f"could not be started: {error}", was_told=True)
        self._child = child
        if self._stopping.is_set():
            child.signal(signal.SIGTERM)
        report = await child.report()
        if report is not None and not report.problem:
            self.ready.set()
            log.info("worker %d is ready: process %d", self._worker, child.pid)
        words = await child.ended()
        served_s = child.served_s
        self._child = None
        if report is not None and report.problem:
            return _End(f"cannot start: {report.problem}", was_told=True)
        return _End(words, served_s)

    async def _end_session(self) -> None:
        """The others hear at once that it is gone."""
        try:
            found = (await self._store.get(keys.broker_key(NodeId(self._worker)))).one
            if found is not None and found.lease != NO_LEASE:
                await self._store.revoke(found.lease)
        except LeaseNotFound:
            pass
        except GoQueueError as error:
            log.warning("the others are not told of it yet: %s", error.message)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
