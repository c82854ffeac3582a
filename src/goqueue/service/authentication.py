"""Who somebody is, by what it shows. Every door asks here, and nowhere else."""

from typing import Final

from goqueue.broker.node import Node
from goqueue.model.caller import Principal
from goqueue.model.security.errors import AuthenticationFailed
from goqueue.service.log_ins import LogIns

_PASSWORD: Final = "password"


class Authentication:
    """What fails is `AuthenticationFailed` after a while, whatever it was that failed."""

    def __init__(self, node: Node) -> None:
        self._security = node.security
        self.log_ins = LogIns(node)

    @property
    def is_on(self) -> bool:
        return self._security.is_on

    async def by_password(self, name: str, password: str) -> Principal:
        user = self._security.image.users.get(name)
        if await self._security.passwords.fits(user, password) and user is not None:
            self.log_ins.succeeded(user.principal, _PASSWORD)
            return user.principal
        raise await self._refused(_PASSWORD, name)

    def is_current(self, principal: Principal) -> bool:
        """Whether who logged in earlier is still somebody; quick, for every request."""
        user = self._security.image.users.get(principal.name)
        return user is not None and user.tenant == principal.tenant

    async def _refused(self, mechanism: str = "", name: str = "") -> AuthenticationFailed:
        """However a log-in fails, it ends here, and is told of."""
        self.log_ins.failed(mechanism, name)
        await self._security.failed_logins.delay()
        return AuthenticationFailed("authentication failed: user name or password are wrong")
