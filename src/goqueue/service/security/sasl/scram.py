"""SCRAM: the record is looked for, and the machine does the rest."""

import secrets
from typing import Final

from goqueue.broker.security.guesses import Guesses
from goqueue.broker.security.scram_records import FoundRecord, ScramRecords
from goqueue.model.security.errors import AuthenticationFailed
from goqueue.model.security.users import BROKERS_USER
from goqueue.service.security.sasl.conversation import Said
from goqueue.state.security.sasl.scram_server import ScramServer

_NONCE_BYTES: Final = 18


class ScramConversation:
    def __init__(
        self,
        mechanism: str,
        records: ScramRecords,
        guesses: Guesses,
        address: str,
        *,
        brokers_only: bool,
    ) -> None:
        self.mechanism = mechanism
        self._guesses = guesses
        self._address = address
        # Whether somebody could guess it: brokers and tokens have secrets that nobody does.
        self._is_guessable = True
        self.user = ""
        self._records = records
        self._brokers_only = brokers_only
        self._server = ScramServer(mechanism)
        self._found: FoundRecord | None = None

    async def hear(self, message: bytes) -> Said:
        if self._found is None:
            claim = self._server.claim(message)
            self.user = claim.name
            self._is_guessable = not claim.is_token and claim.name != BROKERS_USER
            self._found = await self._records.find(
                self.mechanism, claim, brokers_only=self._brokers_only
            )
            nonce = secrets.token_urlsafe(_NONCE_BYTES)
            return Said(self._server.challenge(self._found.record, nonce))
        if not self._is_guessable:
            return self._finish(message, self._found)
        guesses, who = self._guesses, (self.user, self._address)
        if guesses.need_no_turn(*who):
            try:
                return self._finish(message, self._found)
            except AuthenticationFailed:
                guesses.was_wrong(*who)
                raise
        await guesses.turn(*who)
        said = self._finish(message, self._found)
        guesses.was_right(*who)
        guesses.seen(*who)
        return said

    def _finish(self, message: bytes, found: FoundRecord) -> Said:
        reply = self._server.finish(message)
        if found.login is None:
            raise AuthenticationFailed("SCRAM: nobody")
        return Said(reply, found.login)
