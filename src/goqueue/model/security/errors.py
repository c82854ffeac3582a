"""What goes wrong where somebody says who it is."""

from goqueue.model.errors import (
    AccessDenied,
    BrokerUnreachable,
    Conflict,
    GoQueueError,
    InvalidRequest,
    Overloaded,
)


class AuthenticationFailed(GoQueueError):
    """Nobody is told whether the user, the password or something else was wrong."""

    code = "authentication_failed"


class TooManyLogIns(Overloaded):
    """Too many failed before it. Nothing was tried; whoever knows its password comes again."""

    code = "too_many_log_ins"


class UnknownUser(GoQueueError):
    """For administrators only."""

    code = "unknown_user"


class UnknownCredential(UnknownUser):
    """The user is there, or not; what was to be removed is not."""

    code = "unknown_credential"


class UserExists(InvalidRequest):
    code = "user_exists"


class LastAdministrator(InvalidRequest):
    """There would be nobody left who may do everything."""

    code = "last_administrator"


class MasterKeyUnusable(GoQueueError):
    """The message says what to do with the file."""

    code = "master_key_unusable"


class UnknownTenant(GoQueueError):
    """For administrators only."""

    code = "unknown_tenant"


class TenantExists(Conflict):
    code = "tenant_exists"


class UnacceptableCredential(InvalidRequest):
    code = "unacceptable_credential"


class NamedTwice(InvalidRequest):
    """In one request, where it cannot be told which is meant."""

    code = "named_twice"


class UnsupportedMechanism(InvalidRequest):
    code = "unsupported_sasl_mechanism"


class TokenNotAllowed(GoQueueError):
    """Who logged in by a token gets no further ones, and nobody without having logged in."""

    code = "delegation_token_not_allowed"


class TokenAccessDenied(AccessDenied):
    code = "delegation_token_access_denied"


class TokenNotOwned(AccessDenied):
    """Only owners and those whom they named renew and end a token."""

    code = "delegation_token_not_owned"


class UnknownToken(GoQueueError):
    code = "unknown_delegation_token"


class TokenExpired(GoQueueError):
    code = "delegation_token_expired"


def not_let_in(address: tuple[str, int], error: AuthenticationFailed) -> BrokerUnreachable:
    """Of a broker that another one refuses: their master keys differ."""
    return BrokerUnreachable(
        f"the broker at {address[0]}:{address[1]} does not let this one in; all brokers of "
        f"a cluster need the same master key: {error.message}"
    )


class UnknownKey(GoQueueError):
    code = "unknown_key"


class SecurityDisabled(InvalidRequest):
    """Asked for what counts only while `security.enabled` is set."""

    code = "security_disabled"
