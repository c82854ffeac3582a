"""Work that begins where it is called, and becomes a task only if it has to wait.

Python 3.12 has eager tasks; this is the part of them that we need. The first step runs outside of
any task, so it must not ask for the current one, as `asyncio.timeout` and task groups do.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

_PASSED_ON: Final = object()


def begin(work: Coroutine[Any, None, T]) -> T | asyncio.Task[T]:
    """The result of `work` if nothing had to be waited for, else a task that goes on with it."""
    try:
        waiting_on = work.send(None)
    except StopIteration as done:
        return cast(T, done.value)
    return asyncio.get_running_loop().create_task(_Begun(work, waiting_on))


async def to_the_end(
    work: Coroutine[Any, None, T], abandoned: Callable[["asyncio.Task[T]"], None]
) -> T:
    """The result of `work`, which goes on where the caller is cancelled: `abandoned` is told then,
    and sees to what it brings."""
    begun = begin(work)
    if not isinstance(begun, asyncio.Task):
        return begun
    try:
        return await asyncio.shield(begun)
    except asyncio.CancelledError:
        abandoned(begun)
        raise


class _Begun(Coroutine[Any, None, T]):
    """A coroutine after its first step, for a task that believes it takes that step itself."""

    __slots__ = ("_waiting_on", "_work")

    def __init__(self, work: Coroutine[Any, None, T], waiting_on: Any) -> None:
        self._work = work
        self._waiting_on = waiting_on

    def send(self, value: None) -> Any:
        waiting_on, self._waiting_on = self._waiting_on, _PASSED_ON
        return self._work.send(value) if waiting_on is _PASSED_ON else waiting_on

    def throw(self, *error: Any) -> Any:
        self._waiting_on = _PASSED_ON
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, None, T]:
        raise TypeError("only a task goes on with work that has begun")
