"""Brokers that did not answer, in lists that are gathered from all of a cluster."""

from collections.abc import Mapping
from typing import Any

import typer


def name_unanswered(answer: Mapping[str, Any]) -> bool:
    """Say who they are; whether there are any."""
    unanswered = answer.get("unanswered", ())
    for each in unanswered:
        typer.echo(f"goqueue: broker {each['broker']} is left out: {each['reason']}", err=True)
    return bool(unanswered)
