"""Whether a password is a user's: PBKDF2 in a thread, and known again by a keyed hash.

Who sends its password with every request (Basic) would cost milliseconds each time otherwise, and
would wait for its turn among those who guess (`guesses.py`). A password is known at the address
that it came from: at others, who guesses would not have to wait.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict
from typing import Final

from goqueue.broker.security.guesses import Guesses, network_of
from goqueue.model.security.errors import TooManyLogIns
from goqueue.model.security.users import ScramRecord, User
from goqueue.state.security.scram import ITERATIONS_MIN, SALT_BYTES, SHA_256, fits

# Passwords that fitted, as hashes under a key that dies with the process: 100 bytes each.
KNOWN_MAX: Final = 10_000
# Log-ins that are worked on at a time: a flood of wrong ones leaves the processor to others.
AT_ONCE_MAX: Final = 2


class Passwords:
    def __init__(self, guesses: Guesses) -> None:
        self._guesses = guesses
        # Those that are tried just now. The same one is not tried twice at a time.
        self._tried: dict[bytes, asyncio.Future[bool]] = {}
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

    async def fits(self, name: str, user: User | None, password: str, *, address: str) -> bool:
        """`user` has the name; None: nobody has. `TooManyLogIns`: nothing was tried."""
        mechanism, record = self._record(user)
        shown = repr((name, password, network_of(address))).encode()
        digest = hmac.digest(self._key, shown, hashlib.sha256)
        while self._known.get(digest) != record.stored_key:
            tried = self._tried.get(digest)
            if tried is None:
                is_fitting = await self._try(digest, name, mechanism, record, password, address)
                return is_fitting and user is not None
            await asyncio.wait((tried,))
            if not tried.cancelled() and not tried.result():
                return False
        self._known.move_to_end(digest)
        return True

    async def _try(
        self,
        digest: bytes,
        name: str,
        mechanism: str,
        record: ScramRecord,
        password: str,
        address: str,
    ) -> bool:
        told = self._tried[digest] = asyncio.get_running_loop().create_future()
        try:
            await self._guesses.turn(name, address)
            async with self._turns:
                is_fitting = await asyncio.to_thread(fits, mechanism, record, password)
            # HMAC does not tell a key from the same one with zeros behind it (RFC 2104).
            is_fitting = is_fitting and "\0" not in password
            if is_fitting:
                self._guesses.was_right(name, address)
                self._known[digest] = record.stored_key
                if len(self._known) > KNOWN_MAX:
                    self._known.popitem(last=False)
            told.set_result(is_fitting)
        except TooManyLogIns as error:
            told.set_exception(error)
            # Somebody looks at it, as far as asyncio is concerned.
            told.exception()
            raise
        finally:
            # Where who began it left, those who wait for it try themselves.
            told.cancel()
            del self._tried[digest]
        return is_fitting

    def _record(self, user: User | None) -> tuple[str, ScramRecord]:
        if user is not None and user.scram:
            mechanism = SHA_256 if SHA_256 in user.scram else next(iter(user.scram))
            return mechanism, user.scram[mechanism]
        return SHA_256, self._nobody
