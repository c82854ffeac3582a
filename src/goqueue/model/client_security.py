"""How a client shows who it is, and how it knows the broker: one value for every protocol."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from goqueue.model.errors import InvalidConfig

SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (SCRAM_SHA_256, SCRAM_SHA_512, PLAIN, OAUTHBEARER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """`tls`: the broker is reached by TLS, and its certificate is held against `ca_file`, or the
    CAs that this machine trusts. `certificate_file` and `key_file` are the client's own.

    With a `username` and a `password` it logs in by `mechanism`, and over HTTP by Basic; with a
    `token` by OAUTHBEARER, and over HTTP as a bearer. Neither is shown by `repr`.
    """

    tls: bool = False
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.mechanism and self.mechanism not in MECHANISMS:
            raise InvalidConfig(f"mechanism: {self.mechanism!r} is none of {', '.join(MECHANISMS)}")
        if not self.tls and (self.ca_file or self.certificate_file or self.key_file):
            raise InvalidConfig("tls: files of certificates are named, but tls is off")
        if bool(self.certificate_file) != bool(self.key_file):
            raise InvalidConfig("certificate_file and key_file: one of them is missing")
        if self.mechanism == OAUTHBEARER and not self.token:
            raise InvalidConfig(f"token: {OAUTHBEARER} needs one")
        if self.mechanism not in ("", OAUTHBEARER) and not self.username:
            raise InvalidConfig(f"username: {self.mechanism} needs one")

    @property
    def sasl_mechanism(self) -> str | None:
        """None: it does not log in, or by its certificate."""
        if self.mechanism:
            return self.mechanism
        if self.token:
            return OAUTHBEARER
        return SCRAM_SHA_256 if self.username else None


# As brokers are reached whose security is off.
NO_SECURITY: Final = ClientSecurity()

# Of the broker at a host and a port. Asked at each connection: it may need a file that is not there
# when its user is made.
SecurityOf = Callable[[str, int], ClientSecurity]


def no_security(_host: str, _port: int) -> ClientSecurity:
    return NO_SECURITY
