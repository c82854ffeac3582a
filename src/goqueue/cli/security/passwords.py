"""New passwords: from a file, standard input or the terminal, or made up; never shown twice."""

import getpass
import secrets
import sys
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from goqueue.cli.failures import CommandFailed

# 24 letters of 64 are 144 bits.
GENERATED_BYTES: Final = 18
# What a file may be called that is standard input.
_STDIN: Final = "-"

NewPasswordFileOption = Annotated[
    str | None,
    typer.Option(
        "--new-password-file",
        metavar="FILE",
        help="The user's password, in the first line; - is standard input.",
        show_default=False,
    ),
]
GenerateOption = Annotated[
    bool, typer.Option("--generate", help="Make a password up, and print it once.")
]
PasswordOption = Annotated[
    str | None,
    typer.Option(
        "--new-password",
        metavar="TEXT",
        help="The password itself. Others on this machine see command lines, and shells keep them.",
        show_default=False,
    ),
]


class NewPassword(NamedTuple):
    text: str
    # The user has not seen it yet.
    is_generated: bool = False

    def __repr__(self) -> str:
        return "NewPassword(…)"


def new_password(name: str, *, file: str | None, typed: str | None, generate: bool) -> NewPassword:
    """As the options say; without any, the terminal is asked twice, and where there is none, one is
    made up."""
    if sum((file is not None, typed is not None, generate)) > 1:
        raise typer.BadParameter("give one of --new-password-file, --new-password and --generate")
    if typed is not None:
        typer.echo(
            "goqueue: a password on the command line is seen by others on this machine, and kept "
            "in the shell's history; --new-password-file or the terminal are safer",
            err=True,
        )
        return NewPassword(_checked(typed))
    if file is not None:
        return NewPassword(_checked(_first_line(file)))
    if generate or not sys.stdin.isatty():
        return NewPassword(secrets.token_urlsafe(GENERATED_BYTES), is_generated=True)
    first = getpass.getpass(f"New password of {name}: ")
    if getpass.getpass("Once more: ") != first:
        raise CommandFailed("the two passwords differ; nothing was changed")
    return NewPassword(_checked(first))


def tell_generated(name: str, password: NewPassword) -> None:
    if password.is_generated:
        typer.echo(f"password of {name}: {password.text}")
        typer.echo("It is not shown again; only what proves it is kept.")


def _first_line(file: str) -> str:
    from goqueue.client.profiles import read_secret_file

    if file != _STDIN:
        return read_secret_file(Path(file), "--new-password-file")
    return sys.stdin.readline().rstrip("\r\n")


def _checked(password: str) -> str:
    from goqueue.broker.security.bootstrap_file import check_password

    check_password(password, "password")
    return password
