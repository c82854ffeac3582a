"""Commands beside each other on one store: none removes what another one counts on.

`create` uses objects of earlier backups again, and `prune` removes backups and their objects. Each
leaves a mark before it looks for the other's, so of two that begin at once at least one sees the
other: `create` waits until no prune is at work, and `prune` leaves all objects alone while a
backup is being made. Marks are renewed; those of a process that died count for no longer than
`STALE_MS`. A process that could not renew its own for half of that gives up.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

import msgspec

from goqueue.backup.errors import BackupFailed
from goqueue.backup.stores import Store

_FOLDER: Final = "running"
_MARK_BYTES_MAX: Final = 10_000
# Clocks of the machines that use a store may differ by minutes.
STALE_MS: Final = 30 * 60 * 1000
_RENEW_SECONDS: Final = 60.0
_WAIT_SECONDS: Final = 1.0


class Work(StrEnum):
    CREATE = "create"
    PRUNE = "prune"


class _Mark(msgspec.Struct, frozen=True):
    work: Work
    renewed_at_ms: int


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def at_work(store: Store, work: Work, *, now_ms: int) -> list[str]:
    """Names of those that do this."""
    found = []
    for name, _ in store.names(_FOLDER):
        try:
            mark = msgspec.json.decode(store.get(name, size_max=_MARK_BYTES_MAX), type=_Mark)
        except FileNotFoundError:
            continue
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # Nobody knows what it says, and it is easily removed.
            raise BackupFailed(
                f"{store.address}/{name} cannot be read; remove it if no backup is being made"
            ) from None
        if mark.work is work and now_ms - mark.renewed_at_ms < STALE_MS:
            found.append(name.rpartition("/")[2])
    return found


class Marked:
    """A mark in the store, which a thread renews."""

    def __init__(self, store: Store, name: str, work: Work) -> None:
        self._store = store
        self._name = f"{_FOLDER}/{name}"
        self._work = work
        self._renewed_at = time.monotonic()
        self._over = threading.Event()
        self._renew()
        self._thread = threading.Thread(target=self._run, name="goqueue-backup-mark", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Give up before others take this process for dead."""
        if time.monotonic() - self._renewed_at > STALE_MS / 2000:
            raise BackupFailed(
                f"{self._store.address} could not be written to for {STALE_MS // 120_000} minutes; "
                "run the command again: what was stored is not stored again"
            )

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        self._store.remove(self._name)

    def _run(self) -> None:
        while not self._over.wait(_RENEW_SECONDS):
            try:
                self._renew()
            except Exception:
                continue

    def _renew(self) -> None:
        mark = _Mark(self._work, _now_ms())
        self._store.put(self._name, msgspec.json.encode(mark))
        self._renewed_at = time.monotonic()


@contextmanager
def marked(store: Store, name: str, work: Work) -> Iterator[Marked]:
    mark = Marked(store, name, work)
    try:
        yield mark
    finally:
        mark.end()


def wait_for_prunes(store: Store, tell: Callable[[str], None]) -> None:
    told = False
    while at_work(store, Work.PRUNE, now_ms=_now_ms()):
        if not told:
            tell("waiting for `goqueue backup prune`, which is at work in this store")
            told = True
        time.sleep(_WAIT_SECONDS)
