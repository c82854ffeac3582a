"""Asking before something is gone for good."""

import sys

import typer

from goqueue.cli.failures import CommandFailed


def confirm(question: str, *, yes: bool) -> None:
    """Go on if the user says so. Where nobody can be asked, only `--yes` says so."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(f"{question} Nobody is there to answer: say so with --yes")
    typer.confirm(question, abort=True)
