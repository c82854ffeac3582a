"""How a command ends when it cannot go on: one line, what to do next, an exit code."""

import os
import sys
from typing import Any, Final

import typer
from typer.core import TyperGroup

from goqueue.model.errors import GoQueueError

FAILED: Final = 1

# What to do next, by the error's stable code.
_NEXT_STEP: Final = {
    "broker_unreachable": "start one with `goqueue serve`, or name another with --bootstrap",
    "backup_damaged": "use an earlier one (`goqueue backup list`), and make a new one soon",
    "http_unreachable": "can it be reached from here? Name another address with --http",
}
# The same for what a broker refuses over HTTP: its own code, or the schema registry's.
_NEXT_STEP_OF_REFUSAL: Final = {
    "unknown_topic": "see `goqueue topics list`",
    "unknown_delayed_message": "see `goqueue delayed list`: it may have been delivered",
    "40401": "see `goqueue schemas list`",
    "40402": "see `goqueue schemas list --all`",
    "40403": "see `goqueue schemas list --all`",
}


class CommandFailed(GoQueueError):
    """A client command cannot go on."""

    code = "command_failed"

    def __init__(self, message: str, *, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


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
    from goqueue.client.http_api import HttpRefused

    refusal = error.reason if isinstance(error, HttpRefused) else ""
    next_step = _NEXT_STEP.get(error.code) or _NEXT_STEP_OF_REFUSAL.get(refusal)
    line = f"{error.message.rstrip('.')}; {next_step}" if next_step else error.message
    typer.echo(f"goqueue: {line}", err=True)
    raise typer.Exit(error.exit_code if isinstance(error, CommandFailed) else FAILED) from error
