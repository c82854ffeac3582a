"""How long a request keeps the event loop busy: the time of its steps, not that of its waits."""

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from time import perf_counter
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Timed(Generic[T]):
    """Awaits `work`; `seconds` is the time of its steps so far. Tasks that it starts are not
    counted."""

    __slots__ = ("_work", "seconds")

    def __init__(self, work: Awaitable[T]) -> None:
        self._work = work
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, T]:
        work = self._work.__await__()
        step: Callable[[], Any] = partial(work.send, None)
        while True:
            began = perf_counter()
            try:
                waits_for = step()
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                self.seconds += perf_counter() - began
            try:
                step = partial(work.send, (yield waits_for))
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:
                step = partial(work.throw, error)
