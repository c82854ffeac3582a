"""How long a request keeps the event loop busy: the time of its steps, not that of its waits."""

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from time import perf_counter
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def timed(work: Awaitable[T], spend: Callable[[float], None]) -> T:
    """What `work` answers; `spend` is told the seconds that its steps took. Tasks that it starts
    are not counted. Most work is done in one step, for which this takes a microsecond."""
    steps = work.__await__()
    began = perf_counter()
    try:
        waits_for = next(steps)
    except StopIteration as done:
        spend(perf_counter() - began)
        result: T = done.value
        return result
    except BaseException:
        spend(perf_counter() - began)
        raise
    rest = _Rest[T](steps, waits_for, perf_counter() - began)
    try:
        return await rest
    finally:
        spend(rest.seconds)


class _Rest(Generic[T]):
    """Goes on with work after its first step."""

    __slots__ = ("_steps", "_waits_for", "seconds")

    def __init__(self, steps: Generator[Any, Any, T], waits_for: Any, seconds: float) -> None:
        self._steps = steps
        self._waits_for = waits_for
        self.seconds = seconds

    def __await__(self) -> Generator[Any, Any, T]:
        steps, waits_for = self._steps, self._waits_for
        step: Callable[[], Any]
        while True:
            try:
                step = partial(steps.send, (yield waits_for))
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                step = partial(steps.throw, error)
            began = perf_counter()
            try:
                waits_for = step()
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                self.seconds += perf_counter() - began
