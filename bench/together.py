"""Clients that work at the same time, each in a process of its own."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Final

_CONTEXT: Final = multiprocessing.get_context("spawn")

Begun = tuple[SpawnProcess, Connection]


def begun(work: Callable[..., Any], *arguments: Any) -> Begun:
    ours, theirs = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_tell, args=(theirs, work, arguments))
    process.start()
    theirs.close()
    return process, ours


def together(*works: Begun) -> list[Any]:
    """What each of them found."""
    answers = [answer.recv() for _, answer in works]
    for process, _ in works:
        process.join()
    return answers


def _tell(answer: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    answer.send(work(*arguments))
