"""What all batch actions check, and how they report entries that failed."""

import re
from collections.abc import Sequence
from typing import Final, Protocol

from goqueue.doors.sqs.answers import FailedEntry
from goqueue.doors.sqs.errors import ErrorKind, SqsError

ENTRIES_MAX: Final = 10

_ENTRY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,80}", re.ASCII)


class _Entry(Protocol):
    @property
    def id(self) -> str | None: ...


def check_entries(action: str, entries: Sequence[_Entry]) -> list[str]:
    """The ids of the entries."""
    if not entries:
        raise SqsError(
            ErrorKind.EMPTY_BATCH_REQUEST,
            f"There should be at least one {action}RequestEntry in the request.",
        )
    if len(entries) > ENTRIES_MAX:
        raise SqsError(
            ErrorKind.TOO_MANY_ENTRIES,
            f"Maximum number of entries per request are {ENTRIES_MAX}. "
            f"You have sent {len(entries)}.",
        )
    ids = [entry.id or "" for entry in entries]
    for entry_id in ids:
        if not _ENTRY_ID.fullmatch(entry_id):
            raise SqsError(
                ErrorKind.INVALID_BATCH_ENTRY_ID,
                "A batch entry id can only contain alphanumeric characters, hyphens and "
                "underscores. It can be at most 80 letters long.",
            )
    if len(set(ids)) < len(ids):
        repeated = next(entry_id for at, entry_id in enumerate(ids) if entry_id in ids[:at])
        raise SqsError(ErrorKind.BATCH_ENTRY_IDS_NOT_DISTINCT, f"Id {repeated} repeated.")
    return ids


def failed(entry_id: str, error: SqsError) -> FailedEntry:
    return FailedEntry(
        id=entry_id,
        sender_fault=error.kind.is_sender,
        code=error.kind.query_code,
        message=error.message,
    )
