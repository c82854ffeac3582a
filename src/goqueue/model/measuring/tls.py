"""Figures of TLS."""

from dataclasses import dataclass


@dataclass(slots=True)
class TlsFigures:
    # When the certificate in use ends, in seconds since 1970; None: there is no TLS.
    expires_s: float | None = None
    # Since the start: new files that are used now, and such that were not usable.
    reloads: int = 0
    reload_failures: int = 0
    handshake_failures: int = 0
