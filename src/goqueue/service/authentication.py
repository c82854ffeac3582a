"""Who somebody is, by what it shows. Every door asks here, and nowhere else."""

from goqueue.broker.node import Node
from goqueue.model.caller import Principal
from goqueue.model.security.errors import AuthenticationFailed


class Authentication:
    """What fails is `AuthenticationFailed` after a while, whatever it was that failed."""

    def __init__(self, node: Node) -> None:
        self._security = node.security

    @property
    def is_on(self) -> bool:
        return self._security.is_on

    async def by_password(self, name: str, password: str) -> Principal:
        user = self._security.image.users.get(name)
        if await self._security.passwords.fits(user, password) and user is not None:
            return user.principal
        raise await self._refused()

    def is_current(self, principal: Principal) -> bool:
        """Whether who logged in earlier is still somebody; quick, for every request."""
        user = self._security.image.users.get(principal.name)
        return user is not None and user.tenant == principal.tenant

    async def _refused(self) -> AuthenticationFailed:
        await self._security.failed_logins.delay()
        return AuthenticationFailed("authentication failed: user name or password are wrong")
