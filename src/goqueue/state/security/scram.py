"""SCRAM's records (RFC 5802): what is kept of a password, and whether one fits. Pure and slow."""

import hashlib
import hmac
from typing import Final

from goqueue.model.security.users import ScramRecord

SHA_256: Final = "SCRAM-SHA-256"
SHA_512: Final = "SCRAM-SHA-512"
HASHES: Final = {SHA_256: "sha256", SHA_512: "sha512"}
# Kafka's limits for what clients give. RFC 7677 asks for at least the lower one.
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
SALT_BYTES: Final = 16


def make_record(mechanism: str, password: str, *, salt: bytes, iterations: int) -> ScramRecord:
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
    return record_of(mechanism, salted, salt=salt, iterations=iterations)


def record_of(mechanism: str, salted: bytes, *, salt: bytes, iterations: int) -> ScramRecord:
    """From a password that its user salted (KIP-554)."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    return ScramRecord(
        salt=salt,
        iterations=iterations,
        stored_key=hashlib.new(name, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", name),
    )


def fits(mechanism: str, record: ScramRecord, password: str) -> bool:
    found = make_record(mechanism, password, salt=record.salt, iterations=record.iterations)
    return hmac.compare_digest(found.stored_key, record.stored_key)
