"""`goqueue audit`: who did what, and who was refused."""

import time
from typing import Annotated, Any

import typer

from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.moments import format_moment
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_document, print_rows
from goqueue.cli.unanswered import name_unanswered

_COLUMNS = {
    "time": "Time",
    "event": "Event",
    "outcome": "Outcome",
    "principal": "Who",
    "from": "From",
    "what": "What",
    "count": "Times",
}
_FOLLOW_INTERVAL_SECONDS = 1.0
_FOLLOWED_MAX = 1_000


def audit(
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1_000, help="How many to list at most.")
    ] = 50,
    principal: Annotated[
        str | None, typer.Option(metavar="KIND:NAME", help="Only of this one, such as User:alice.")
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only these, such as topic.delete, topic or login."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until interrupted.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List log-ins, refusals and administrative changes, the newest last."""
    api = http_api(bootstrap, http)
    filters = {"principal": principal, "event": event}
    answer = api.get("audit", limit=limit, **filters)
    events = answer["events"][::-1]
    _print(events, output)
    name_unanswered(answer)
    seen = _seen(events)
    while follow:
        time.sleep(_FOLLOW_INTERVAL_SECONDS)
        events = api.get("audit", limit=_FOLLOWED_MAX, **filters)["events"][::-1]
        new = [each for each in events if _key(each) not in seen]
        if new:
            _print(new, output)
        seen = _seen(events) | seen if len(events) < _FOLLOWED_MAX else _seen(events)


def _key(event: dict[str, Any]) -> str:
    return repr(sorted(event.items(), key=lambda item: item[0]))


def _seen(events: list[dict[str, Any]]) -> set[str]:
    return {_key(each) for each in events}


def _print(events: list[dict[str, Any]], output: Output) -> None:
    if output is not Output.TABLE:
        print_document(events, output)
        return
    rows = [
        {
            "time": format_moment(each["timeMs"]),
            "event": each["event"],
            "outcome": f"{each['outcome']} ({each['error']})" if each["error"] else each["outcome"],
            "principal": each["principal"],
            "from": f"{each['door']} {each['address']}".strip(),
            "what": _what(each),
            "count": each["count"],
        }
        for each in events
    ]
    print_rows(rows, output, columns=_COLUMNS)


def _what(event: dict[str, Any]) -> str:
    words = [f"{event['resource']} {event['name']}".strip()]
    words += [f"{name}: {value}" for name, value in event["detail"].items()]
    return ", ".join(word for word in words if word)
