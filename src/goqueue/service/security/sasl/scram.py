"""SCRAM: the record is looked for, and the machine does the rest."""

import secrets
from typing import Final

from goqueue.broker.security.scram_records import FoundRecord, ScramRecords
from goqueue.model.security.errors import AuthenticationFailed
from goqueue.service.security.sasl.conversation import Said
from goqueue.state.security.sasl.scram_server import ScramServer

_NONCE_BYTES: Final = 18


class ScramConversation:
    def __init__(self, mechanism: str, records: ScramRecords, *, brokers_only: bool) -> None:
        self.mechanism = mechanism
        self.user = ""
        self._records = records
        self._brokers_only = brokers_only
        self._server = ScramServer(mechanism)
        self._found: FoundRecord | None = None

    async def hear(self, message: bytes) -> Said:
        if self._found is None:
            claim = self._server.claim(message)
            self.user = claim.name
            self._found = await self._records.find(
                self.mechanism, claim, brokers_only=self._brokers_only
            )
            nonce = secrets.token_urlsafe(_NONCE_BYTES)
            return Said(self._server.challenge(self._found.record, nonce))
        reply = self._server.finish(message)
        if self._found.login is None:
            raise AuthenticationFailed("SCRAM: nobody")
        return Said(reply, self._found.login)
