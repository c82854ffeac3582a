"""Figures of TLS."""

from dataclasses import dataclass


@dataclass(slots=True)
class TlsFigures:
    # When the certificate in use ends, in seconds since 1970; None: there is no TLS.
    expires_s: float | None = None
    # When the first list of revoked certificates is out of date; None: there is none.
    crl_expires_s: float | None = None
    # The files that are there cannot be used, and those from before are.
    is_stale: bool = False
    # Since the start: new files that are used now, and such that were not usable.
    reloads: int = 0
    reload_failures: int = 0
    handshake_failures: int = 0
