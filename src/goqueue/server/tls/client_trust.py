"""Whose certificates count: those of trusted CAs that have not been revoked.

At a handshake OpenSSL looks. This is for connections that are open when CAs or lists change.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import Certificate, CertificateRevocationList


class ClientTrust(NamedTuple):
    # CAs, by their fingerprints.
    trusted: frozenset[bytes]
    # Certificates, by who made them and their numbers.
    revoked: frozenset[tuple[bytes, int]]

    def refusal(self, chain: Sequence[Certificate]) -> str | None:
        """`chain`: a client's certificate, and those up to the CA that was trusted."""
        if any((each.issuer.public_bytes(), each.serial_number) in self.revoked for each in chain):
            return "its certificate was revoked"
        if chain[-1].fingerprint(SHA256()) not in self.trusted:
            return "the CA of its certificate is no longer trusted"
        return None


def client_trust(
    cas: Iterable[Certificate], lists: Iterable[CertificateRevocationList]
) -> ClientTrust:
    return ClientTrust(
        frozenset(ca.fingerprint(SHA256()) for ca in cas),
        frozenset(
            (found.issuer.public_bytes(), revoked.serial_number)
            for found in lists
            for revoked in found
        ),
    )
