"""What can go wrong with backups, beside what brokers and disks say themselves."""

from goqueue.model.errors import GoQueueError


class BackupFailed(GoQueueError):
    """A backup cannot be made, found or restored; the message says what to do next."""

    code = "backup_failed"


class BackupDamaged(BackupFailed):
    """Something in the store is not what was once written there."""

    code = "backup_damaged"


class BackupTooNew(BackupDamaged):
    """A later release made it; it may be whole, but nobody here can tell."""

    code = "backup_too_new"
