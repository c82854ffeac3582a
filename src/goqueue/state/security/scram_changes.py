"""Changes of many users' credentials, by user: all of a user's together, or none (KIP-554)."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from goqueue.model.errors import GoQueueError
from goqueue.model.security.errors import (
    NamedTwice,
    UnacceptableCredential,
    UnsupportedMechanism,
)
from goqueue.model.security.scram_changes import ScramChange, ScramDeletion, ScramUpsertion
from goqueue.model.security.users import ScramRecord
from goqueue.state.security.scram import HASHES, ITERATIONS_MAX, ITERATIONS_MIN, record_of

# Clients make 16 to 26 bytes; it is kept, and sent with every log-in.
SALT_MAX_BYTES: Final = 256

# What a user is to have by mechanism, None: no longer; or why it stays as it is.
Wanted = Mapping[str, ScramRecord | None] | GoQueueError


def by_user(changes: Sequence[ScramChange]) -> dict[str, Wanted]:
    found: dict[str, Wanted] = {}
    for change in changes:
        known = found.get(change.name, {})
        if isinstance(known, GoQueueError):
            continue
        try:
            found[change.name] = {**known, change.mechanism: _record(change, known)}
        except GoQueueError as error:
            found[change.name] = error
    return found


def _record(change: ScramChange, known: Mapping[str, ScramRecord | None]) -> ScramRecord | None:
    if change.mechanism not in HASHES:
        raise UnsupportedMechanism("the SCRAM mechanism is not known")
    if change.mechanism in known:
        raise NamedTwice("a credential cannot be changed twice in the same request")
    if not change.name:
        raise UnacceptableCredential("user name: must not be empty")
    if isinstance(change, ScramDeletion):
        return None
    _check(change)
    return record_of(
        change.mechanism, change.salted_password, salt=change.salt, iterations=change.iterations
    )


def _check(change: ScramUpsertion) -> None:
    if not ITERATIONS_MIN <= change.iterations <= ITERATIONS_MAX:
        raise UnacceptableCredential(
            f"iterations: {change.iterations} is not within {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        )
    if not 1 <= len(change.salt) <= SALT_MAX_BYTES:
        raise UnacceptableCredential(f"salt: must have 1 to {SALT_MAX_BYTES} bytes")
    size = hashlib.new(HASHES[change.mechanism]).digest_size
    if len(change.salted_password) != size:
        raise UnacceptableCredential(f"salted password: must have {size} bytes")
