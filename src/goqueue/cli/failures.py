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
    "authentication_failed": "see --username and --password-file, or `goqueue profile show`",
    "http_unreachable": "can it be reached from here? Name another address with --http",
}
# The same for what a broker refuses over HTTP: its own code, or the schema registry's.
_NEXT_STEP_OF_REFUSAL: Final = {
    "unknown_topic": "see `goqueue topics list`",
    "unknown_user": "see `goqueue users list`",
    "unknown_tenant": "see `goqueue tenants list`",
    "authentication_failed": "see --username and --password-file, or `goqueue profile show`",
    "unknown_delayed_message": "see `goqueue delayed list`: it may have been delivered",
    "40401": "see `goqueue schemas list`",
    "40402": "see `goqueue schemas list --all`",
    "40403": "see `goqueue schemas list --all`",
}
# Of every kind of thing: `topic_access_denied` and the like.
_DENIED: Final = "access_denied"
# Of Kafka's protocol, which has codes in place of messages.
_DENIED_BY_KAFKA: Final = ("authorization failed", "is not allowed to")
# Of those that are there, but not to be talked to so: their words, and what to do.
_NEXT_STEP_OF_TALK: Final = {
    "closed the connection": "does it speak TLS, or want a log-in? See --profile, or --ca-file and "
    "--username",
    "speaks TLS": "see --profile, or --ca-file",
    "is trusted": "name the CA of its certificate with --ca-file",
}
_WHEN_DENIED: Final = "see `goqueue whoami`; an administrator allows more with `goqueue acls add`"


class CommandFailed(GoQueueError):
    """A client command cannot go on."""

    code = "command_failed"

    def __init__(self, message: str, *, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class CommandGroup(TyperGroup):
    """The root of the command; nothing but what is listed here ends in a traceback. Commands that
    talk to a broker get the options of whom they ask as."""

    def __init__(self, **given: Any) -> None:
        from goqueue.cli.security.connecting import add_connection_options, profile_option

        super().__init__(**given)
        self.params.append(profile_option())
        add_connection_options(self)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from goqueue.cli.security.connecting import begin_connection

        begin_connection()
        return super().parse_args(ctx, args)

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
    if refusal.endswith(_DENIED) or _is_denied_by_kafka(error):
        next_step = _WHEN_DENIED
    elif error.code == "broker_unreachable":
        for words, step in _NEXT_STEP_OF_TALK.items():
            if words in error.message:
                next_step = step
    line = f"{error.message.rstrip('.')}; {next_step}" if next_step else error.message
    typer.echo(f"goqueue: {line}", err=True)
    raise typer.Exit(error.exit_code if isinstance(error, CommandFailed) else FAILED) from error


def _is_denied_by_kafka(error: GoQueueError) -> bool:
    text = error.message.lower()
    return any(words in text for words in _DENIED_BY_KAFKA)
