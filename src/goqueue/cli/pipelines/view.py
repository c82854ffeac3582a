"""A running pipeline on the screen: one line that moves in a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from goqueue.spark.pipelines.progress import Progress
from goqueue.spark.pipelines.runner import Watcher


@contextmanager
def on_screen() -> Iterator[Watcher]:
    if not sys.stderr.isatty():
        yield Watcher(say=typer.echo, show=typer.echo)
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True, highlight=False).status("starting") as line:

        def show(progress: Progress) -> None:
            line.update(escape(str(progress)))

        yield Watcher(say=typer.echo, show=show)
