"""Many pieces of work for some threads: the first error ends all of them."""

import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class _Stopped(Exception):
    """Another thread failed."""


class Crew(Generic[Piece, Result]):
    """Threads that do pieces of work; `begin` makes what each thread works with."""

    def __init__(self, jobs: int, do: Callable[[Piece], Result]) -> None:
        self._jobs = jobs
        self._do = do
        self._left: SimpleQueue[tuple[int, Piece]] = SimpleQueue()
        self._results: dict[int, Result] = {}
        self._failure: BaseException | None = None
        self._lock = threading.Lock()

    def check(self) -> None:
        """For long pieces of work, now and then."""
        if self._failure is not None:
            raise _Stopped

    def run(self, pieces: Iterable[Piece]) -> list[Result]:
        """In the order of the pieces."""
        for number, piece in enumerate(pieces):
            self._left.put((number, piece))
        count = self._left.qsize()
        threads = [
            threading.Thread(target=self._run, name=f"goqueue-backup-{number}", daemon=True)
            for number in range(min(self._jobs, count))
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException as error:  # Ctrl-C: what was begun ends at the next `check`
            self._fail(error)
            raise
        if self._failure is not None:
            raise self._failure
        return [self._results[number] for number in range(count)]

    def _run(self) -> None:
        while self._failure is None:
            try:
                number, piece = self._left.get_nowait()
            except Empty:
                return
            try:
                self._results[number] = self._do(piece)
            except _Stopped:
                return
            except BaseException as error:
                self._fail(error)
                return

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._failure = self._failure or error
