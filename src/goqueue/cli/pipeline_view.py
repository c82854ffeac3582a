"""A running pipeline on the screen: one line that moves in a terminal, plain lines elsewhere."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer

if TYPE_CHECKING:
    from rich.status import Status

    from goqueue.spark.pipelines.progress import Progress


class PipelineView:
    def __init__(self) -> None:
        self._line: Status | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console

            self._line = Console(stderr=True, highlight=False).status("starting")
            self._line.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._line is not None:
            self._line.stop()

    def say(self, text: str) -> None:
        typer.echo(text)

    def show(self, progress: "Progress") -> None:
        if self._line is not None:
            from rich.markup import escape

            self._line.update(escape(str(progress)))
        else:
            self.say(str(progress))
