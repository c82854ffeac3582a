"""Who asks, by the signature of its request. Only while security is on."""

from collections.abc import Mapping
from datetime import UTC, datetime

from goqueue.doors.sqs.errors import ErrorKind, SqsError
from goqueue.doors.sqs.signature import (
    Claim,
    Request,
    check_signature,
    claim_in,
    parse_query,
    unknown_key,
)
from goqueue.doors.web.asgi import Scope
from goqueue.doors.web.callers import address_in, let_in
from goqueue.model.caller import Door
from goqueue.service.security.web_logins import WebLogins


class Signed:
    """A request whose signature is of the right form, by a key that is there."""

    def __init__(self, logins: WebLogins, scope: Scope, request: Request, claim: Claim) -> None:
        self._logins = logins
        self._scope = scope
        self._request = request
        self._claim = claim

    @classmethod
    async def begin(cls, logins: WebLogins, scope: Scope) -> "Signed":
        """Before the body is read."""
        logins.came_from(Door.SQS, address_in(scope))
        request = Request(
            method=scope["method"],
            path=scope["raw_path"].partition(b"?")[0],
            query=parse_query(scope["query_string"]),
            headers=scope["headers"],
        )
        try:
            claim = claim_in(request, datetime.now(UTC))
            if logins.by_sqs_key(claim.key_id) is None:
                raise unknown_key()
        except SqsError as error:
            await _refused(logins, error)
            raise
        return cls(logins, scope, request, claim)

    async def check(self, body: bytes) -> None:
        """Let the request in as its signer's, or raise."""
        try:
            secret = self._logins.sqs_secret(self._claim.key_id)
            login = self._logins.by_sqs_key(self._claim.key_id)
            if secret is None or login is None:
                raise unknown_key()
            check_signature(self._claim, self._request, body, secret)
        except SqsError as error:
            await _refused(self._logins, error)
            raise
        self._logins.sqs_let_in(login)
        let_in(self._scope, login)

    @property
    def query_fields(self) -> Mapping[str, list[str]]:
        """What a presigned URL says of its action, with every value that a name has."""
        fields: dict[str, list[str]] = {}
        if self._claim.expires is not None:
            for name, value in self._request.query:
                if not name.startswith(b"X-Amz-"):
                    fields.setdefault(_text(name), []).append(_text(value))
        return fields


async def _refused(logins: WebLogins, error: SqsError) -> None:
    """Who showed nothing is told at once."""
    if error.kind is not ErrorKind.MISSING_AUTHENTICATION_TOKEN:
        await logins.sqs_refused()


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise SqsError(ErrorKind.MALFORMED, "The query is not percent-encoded UTF-8.") from None
