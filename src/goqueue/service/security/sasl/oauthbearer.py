"""OAUTHBEARER: a token of the identity provider. One that is refused is told so in the
conversation, and the client says that it heard (RFC 7628, 3.2.2)."""

from goqueue.model.security.errors import AuthenticationFailed
from goqueue.model.security.logins import Login
from goqueue.service.security.authentication import OAUTHBEARER, Authentication
from goqueue.service.security.sasl.conversation import Said
from goqueue.state.security.sasl.oauthbearer import INVALID_TOKEN, read_bearer


class OAuthBearerConversation:
    mechanism = OAUTHBEARER
    # Who it is stands in the token, which must be looked at first.
    user = ""

    def __init__(self, authentication: Authentication, address: str) -> None:
        self._authentication = authentication
        self._address = address
        self._refusal = ""

    async def hear(self, message: bytes) -> Said:
        if self._refusal:
            raise AuthenticationFailed(self._refusal)
        token, authzid = read_bearer(message)
        try:
            login = await self._authentication.of_jwt(token, self._address)
            self._check_authzid(authzid, login)
        except AuthenticationFailed as error:
            self._refusal = error.message
            return Said(INVALID_TOKEN, is_refusal=True)
        return Said(b"", login)

    def _check_authzid(self, authzid: str, login: Login) -> None:
        if authzid not in ("", login.principal.name):
            raise AuthenticationFailed("the authorization id is not the token's user")
