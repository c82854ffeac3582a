"""How a command ends when it cannot go on: one line, what to do next, an exit code."""

import os
import sys
from typing import Any, Final

import typer
from typer.core import TyperGroup

from goqueue.model.errors import GoQueueError

FAILED: Final = 1
WRONG_USAGE: Final = 2

# What to do next, by the error's stable code.
_NEXT_STEP: Final = {
    "broker_unreachable": "start one with `goqueue serve`, or name another with --bootstrap",
    "http_unreachable": "can it be reached from here? Name another address with --http",
}


class CommandFailed(GoQueueError):
    """A client command cannot go on."""

    code = "command_failed"


class CommandGroup(TyperGroup):
    """The root of the command; nothing but what is listed here ends in a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except GoQueueError as error:
            fail(error)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # `goqueue consume … | head`: the reader has what it wanted.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None


def fail(error: GoQueueError) -> None:
    next_step = _NEXT_STEP.get(error.code)
    line = f"{error.message}; {next_step}" if next_step else error.message
    typer.echo(f"goqueue: {line}", err=True)
    raise typer.Exit(FAILED) from error
