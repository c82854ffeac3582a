"""What a clean stop left behind, so that the next start can tell whether it is still there.

Without it a log that lost its last batches looks like one that ended there, and the offsets of
messages that were acknowledged would be given to others.
"""

import msgspec


class LogEnd(msgspec.Struct, frozen=True, array_like=True):
    """The offsets that a log had when it was closed: from `start` up to, not including, `end`."""

    start: int
    end: int


class CleanStop(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `clean-shutdown`.

    `logs` has the logs that were closed in order, by the names of their folders; all others are
    recovered as after a crash. None is what earlier releases wrote: all were closed in order, and
    nobody noted where they ended.
    """

    logs: dict[str, LogEnd] | None = None
    # Of the metadata store; None is unknown.
    metadata_revision: int | None = None

    def has(self, folder: str) -> bool:
        """Whether this log was closed in order."""
        return self.logs is None or folder in self.logs

    def end_of(self, folder: str) -> LogEnd | None:
        return None if self.logs is None else self.logs.get(folder)
