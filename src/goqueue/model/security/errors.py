"""What goes wrong where somebody says who it is."""

from goqueue.model.errors import Conflict, GoQueueError, InvalidRequest


class AuthenticationFailed(GoQueueError):
    """Nobody is told whether the user, the password or something else was wrong."""

    code = "authentication_failed"


class UnknownUser(GoQueueError):
    """For administrators only."""

    code = "unknown_user"


class UserExists(InvalidRequest):
    code = "user_exists"


class MasterKeyUnusable(GoQueueError):
    """The message says what to do with the file."""

    code = "master_key_unusable"


class UnknownTenant(GoQueueError):
    """For administrators only."""

    code = "unknown_tenant"


class TenantExists(Conflict):
    code = "tenant_exists"
