"""PLAIN: the password is looked at where all passwords are."""

from goqueue.model.security.errors import AuthenticationFailed
from goqueue.model.security.logins import Login
from goqueue.service.security.authentication import Authentication
from goqueue.service.security.sasl.conversation import Said
from goqueue.state.security.sasl.plain import read_plain


class PlainConversation:
    mechanism = "PLAIN"

    def __init__(self, authentication: Authentication, address: str) -> None:
        self._authentication = authentication
        self._address = address
        self.user = ""

    async def hear(self, message: bytes) -> Said:
        self.user, password = read_plain(message)
        user = await self._authentication.of_password(self.user, password, self._address)
        if user is None:
            raise AuthenticationFailed("PLAIN: user name or password are wrong")
        login = Login(
            principal=user.principal, mechanism=self.mechanism, user_created_ms=user.created_ms
        )
        return Said(b"", login)
