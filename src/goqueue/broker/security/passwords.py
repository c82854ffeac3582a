"""Whether a password is a user's: PBKDF2 in a thread, and known again by a keyed hash.

Who sends its password with every request (Basic) would cost milliseconds each time otherwise.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict
from typing import Final

from goqueue.model.security.users import ScramRecord, User
from goqueue.state.security.scram import ITERATIONS_MIN, SALT_BYTES, SHA_256, fits

# Passwords that fitted, as hashes under a key that dies with the process: 100 bytes each.
KNOWN_MAX: Final = 10_000
# Log-ins that are worked on at a time: a flood of wrong ones leaves the processor to others.
AT_ONCE_MAX: Final = 2


class Passwords:
    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        # What proved it, by the hash: a new password is not the one that is known.
        self._known: OrderedDict[bytes, bytes] = OrderedDict()
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
        # Somebody who is not there takes as long as one who is.
        self._nobody = ScramRecord(
            salt=secrets.token_bytes(SALT_BYTES),
            iterations=ITERATIONS_MIN,
            stored_key=secrets.token_bytes(32),
            server_key=secrets.token_bytes(32),
        )

    async def fits(self, user: User | None, password: str) -> bool:
        mechanism, record = self._record(user)
        name = "" if user is None else user.name
        digest = hmac.digest(self._key, f"{name}\0{password}".encode(), hashlib.sha256)
        if self._known.get(digest) == record.stored_key:
            self._known.move_to_end(digest)
            return True
        async with self._turns:
            is_fitting = await asyncio.to_thread(fits, mechanism, record, password)
        if user is None or not is_fitting:
            return False
        self._known[digest] = record.stored_key
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return True

    def _record(self, user: User | None) -> tuple[str, ScramRecord]:
        if user is not None and user.scram:
            mechanism = SHA_256 if SHA_256 in user.scram else next(iter(user.scram))
            return mechanism, user.scram[mechanism]
        return SHA_256, self._nobody
