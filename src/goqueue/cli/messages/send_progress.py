"""What became of the messages that were sent, and a progress bar where somebody watches."""

import asyncio
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.progress import Progress


class SendProgress:
    """Counts acknowledged messages per partition; keeps the first failure."""

    def __init__(self, total_bytes: int | None) -> None:
        self.sent = 0
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._count: dict[int, int] = {}
        self._failure: BaseException | None = None
        self._total_bytes = total_bytes
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        # Bulk work has its input elsewhere; somebody who types messages needs no bar.
        if sys.stderr.isatty() and (self._total_bytes is not None or not sys.stdin.isatty()):
            self._bar = _progress_bar()
            self._bar.add_task("sending", total=self._total_bytes)
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def answered(self, batch: "asyncio.Future[Any]", partition: int, count: int) -> None:
        """The broker answered for a batch of `count` messages."""
        if batch.cancelled():
            return
        failure = batch.exception()
        if failure is not None:
            self._failure = self._failure or failure
            return
        self.sent += count
        placed = batch.result()
        if placed is not None:  # acks=0 has no answer
            self._first.setdefault(partition, placed.offset)
            self._last[partition] = placed.offset + count - 1
            self._count[partition] = self._count.get(partition, 0) + count

    def advance(self, input_bytes: int) -> None:
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], input_bytes)

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def rows(self) -> list[dict[str, int]]:
        return [
            {
                "partition": partition,
                "messages": self._count[partition],
                "firstOffset": self._first[partition],
                "lastOffset": self._last[partition],
            }
            for partition in sorted(self._count)
        ]

    def places(self) -> str:
        """`partition 0 offsets 5-7, partition 2 offset 1`"""
        return ", ".join(
            f"partition {row['partition']} "
            + (
                f"offset {row['firstOffset']}"
                if row["messages"] == 1
                else f"offsets {row['firstOffset']}-{row['lastOffset']}"
            )
            for row in self.rows()
        )


def _progress_bar() -> "Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
