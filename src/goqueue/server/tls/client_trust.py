"""Whose certificates count: those of trusted CAs that have not been revoked.

At a handshake OpenSSL looks. This is for connections that are open when CAs or lists change.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import Certificate, CertificateRevocationList


class ClientTrust(NamedTuple):
    # CAs, by their fingerprints.
    trusted: frozenset[bytes]
    # Numbers of certificates, by who made them. A set of nothing but numbers: the event loop stands
    # still while two are compared and one is freed, 10 ms for 100,000 of them.
    revoked: Mapping[bytes, frozenset[int]]

    def refusal(self, chain: Sequence[Certificate]) -> str | None:
        """`chain`: a client's certificate, and those up to the CA that was trusted."""
        if any(self._is_revoked(each) for each in chain):
            return "its certificate was revoked"
        if chain[-1].fingerprint(SHA256()) not in self.trusted:
            return "the CA of its certificate is no longer trusted"
        return None

    def _is_revoked(self, certificate: Certificate) -> bool:
        numbers = self.revoked.get(certificate.issuer.public_bytes(), ())
        return certificate.serial_number in numbers


def client_trust(
    cas: Iterable[Certificate], lists: Iterable[CertificateRevocationList]
) -> ClientTrust:
    revoked: defaultdict[bytes, frozenset[int]] = defaultdict(frozenset)
    for found in lists:
        revoked[found.issuer.public_bytes()] |= {each.serial_number for each in found}
    return ClientTrust(frozenset(ca.fingerprint(SHA256()) for ca in cas), dict(revoked))
