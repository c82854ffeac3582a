"""Figures of all workers of a machine, as text: any of them is asked, at their one port."""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from goqueue.broker.calls.calls import Calls, Gathered
from goqueue.model.calls import Method
from goqueue.model.rights import DescribableCluster

Write = Callable[[DescribableCluster], Awaitable[bytes]]


class WriteFigures(msgspec.Struct, frozen=True):
    cluster: DescribableCluster


TEXT: Final = Method("measuring.text", WriteFigures, bytes, waits=True, is_repeatable=True)


class WorkerFigures:
    """How they are written is up to the door that shows them (`write`)."""

    def __init__(self, calls: Calls, write: Write) -> None:
        self._calls = calls
        self._write = write
        calls.serve(TEXT, self._write_here)

    async def of_all(self, cluster: DescribableCluster) -> Gathered[bytes]:
        return await self._calls.gather(TEXT, WriteFigures(cluster))

    async def _write_here(self, request: WriteFigures) -> bytes:
        return await self._write(request.cluster)
