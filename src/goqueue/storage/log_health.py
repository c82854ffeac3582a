"""Whether a log can be used, and what a failed call of the operating system does to that."""

import errno
import logging
from typing import Final

from goqueue.model.errors import PartitionOffline
from goqueue.model.names import TopicPartition

logger = logging.getLogger(__name__)

# Out of space or descriptors: nothing is wrong with what is stored, and it can pass.
_PASSING_ERRORS: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)


def can_pass(error: BaseException | None) -> bool:
    """Whether what failed so may work later, with nothing done to what is stored."""
    return isinstance(error, OSError) and error.errno in _PASSING_ERRORS


class LogHealth:
    """Once offline, a log stays so until it is opened again."""

    __slots__ = ("_name", "offline_reason")

    def __init__(self, name: TopicPartition) -> None:
        self.offline_reason: str | None = None
        self._name = name

    def check(self) -> None:
        if self.offline_reason is not None:
            raise PartitionOffline(self.offline_reason)

    def failed(self, what: str, error: OSError) -> PartitionOffline:
        """The error to raise; takes the log offline unless the trouble can pass."""
        if self.offline_reason is not None:
            # Deleted or closed while another thread was reading: no wonder.
            return PartitionOffline(self.offline_reason)
        if not can_pass(error):
            return self.broken(f"{what} failed: {error}")
        reason = f"{self._name}: {what} failed: {error}"
        logger.error("%s", reason)
        return PartitionOffline(reason)

    def broken(self, reason: str) -> PartitionOffline:
        """The error to raise; takes the log offline."""
        reason = f"{self._name}: {reason}"
        logger.error("%s; the partition is offline until the broker is restarted", reason)
        self.offline_reason = reason
        return PartitionOffline(reason)

    def end(self, reason: str) -> None:
        """The log is closed or deleted; a reason that was there before stays."""
        self.offline_reason = self.offline_reason or f"{self._name}: {reason}"
