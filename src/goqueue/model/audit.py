"""Words of the audit: what somebody did or was refused, from where, and what came of it.

No secrets and no contents of messages: names of things, names of settings, and numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from goqueue.model.caller import Caller, Door, Principal
from goqueue.model.calls import Unanswered

LOG_IN: Final = "login"
REFUSAL: Final = "access"
# Of names that clients give: group ids may have any length.
TEXT_MAX_LENGTH: Final = 256


class Outcome(Enum):
    SUCCESS = "success"
    FAILURE = "failure"
    # Who asked has no right to it.
    REFUSED = "refused"
    # Nobody waited for the end: it was done, or not.
    UNKNOWN = "unknown"


class AuditEntry(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False
):
    """`count`: how often within a minute, of what is gathered; `time_ms` is then that of the last.

    `name` is that of the thing, of the kind `resource`; `detail` says what was changed of it.
    `error` is the code of what went wrong, without its text.
    """

    time_ms: int
    event: str
    outcome: Outcome
    principal: str
    tenant: str = ""
    door: str = ""
    address: str = ""
    client_id: str = ""
    resource: str = ""
    name: str = ""
    detail: Mapping[str, str] = {}
    error: str = ""
    count: int = 1
    node: int = 0


class Sameness(NamedTuple):
    """What entries have in common that are gathered into one."""

    event: str
    outcome: Outcome
    principal: Principal
    door: Door
    address: str
    resource: str
    name: str
    # What was asked for, or by what somebody logged in.
    verb: str


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`event`: also those below it, such as `topic` for `topic.create`."""

    limit: int
    principal: str | None = None
    event: str | None = None

    def matches(self, entry: AuditEntry) -> bool:
        if self.principal not in (None, entry.principal):
            return False
        asked = self.event
        return asked is None or entry.event == asked or entry.event.startswith(f"{asked}.")


class FoundEntries(NamedTuple):
    """The newest first, and brokers whose entries are missing."""

    entries: list[AuditEntry]
    unanswered: list[Unanswered]


class AuditFigures(NamedTuple):
    """Since the start. Events by name and outcome, each as often as it happened; entries that were
    lost, by what should have taken them; log-ins that failed, by door."""

    events: Mapping[tuple[str, str], int]
    dropped: Mapping[str, int]
    failed_log_ins: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An administrative change that somebody asked for."""

    caller: Caller
    event: str
    outcome: Outcome
    resource: str
    name: str
    detail: Mapping[str, str]
    error: str = ""


def shortened(text: str) -> str:
    return text if len(text) <= TEXT_MAX_LENGTH else text[: TEXT_MAX_LENGTH - 1] + "…"
