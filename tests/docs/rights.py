"""`docs/security-rights.md`, made from what operations declare: `python -m tests.docs.rights`."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from goqueue.doors.http.app import ROUTES
from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.registry.routing import ROUTES as REGISTRY_ROUTES
from goqueue.doors.sqs.actions import ACTIONS
from goqueue.service.needs import Need, Refused
from tests.docs.pages import ROOT

PAGE: Final = ROOT / "docs" / "security-rights.md"
_HEAD: Final = """\
# Which operation needs which right

Made by `python -m tests.docs.rights` from what the operations of each door declare beside them. A
test compares this page with them; others see to it that each right is asked for, and no other. How
rights are given is in [security.md](security.md#rules).

*Left out*: who lacks the right gets the answer without the things that it may not see. *Each*: the
things that it lacks the right for are refused, the others are answered. In all other cases the
whole request is refused. Where several rights stand, all are needed.
"""


def page() -> str:
    kafka = ((each.name, each.needs) for each in OPERATIONS.values())
    http = (
        (f"{method} {path}", route.opt["needs"])
        for route in ROUTES
        for path in route.paths
        for method in route.http_methods
    )
    registry = (
        (f"{method} /{path.lstrip('/')}", route.needs)
        for path, methods in REGISTRY_ROUTES.items()
        for method, route in methods.items()
    )
    sqs = ((name, action.needs) for name, action in ACTIONS.items())
    return "\n".join(
        [
            _HEAD,
            *_table("Kafka", "request", kafka),
            *_table("HTTP", "route", http),
            *_table("Schema registry", "route", registry),
            *_table("SQS", "action", sqs),
        ]
    )


def _table(
    title: str, what: str, operations: Iterable[tuple[str, Sequence[Need] | None]]
) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"| {what} | rights |"
    yield "|---|---|"
    for name, needs in sorted(operations, key=lambda each: each[0]):
        yield f"| `{name}` | {_rights(needs or ())} |"
    yield ""


def _rights(needs: Sequence[Need]) -> str:
    if not needs:
        return "none"
    return ", ".join(dict.fromkeys(map(_right, needs)))


def _right(need: Need) -> str:
    words = f"{need.verb.name.lower()} on {need.resource.name.lower()}"
    if need.or_cluster:
        words += " or cluster"
    if need.refused is Refused.LEFT_OUT:
        return words + " (left out)"
    return words + " (each)" if need.refused is Refused.EACH else words


def write(path: Path = PAGE) -> None:
    path.write_text(page())


if __name__ == "__main__":
    write()
