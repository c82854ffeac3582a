"""Keys of users, for HTTP and for SQS. Everyone has its own in hand."""

from goqueue.broker.node import Node
from goqueue.broker.security.keys import MadeKey
from goqueue.model.caller import Caller
from goqueue.model.rights import Resource
from goqueue.model.security.errors import UnknownKey, UnknownUser
from goqueue.model.security.keys import AccessKey, KeyKind
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited


class KeyService:
    """Who belongs to a tenant knows only the users of that tenant."""

    def __init__(self, node: Node, access: Access) -> None:
        self._keys = node.security.keys
        self._users = node.security.users
        self._access = access

    async def keys(self, caller: Caller) -> list[AccessKey]:
        """Those that the caller may see: its own, at least."""
        found = self._keys.all(self._access.seen_key_users(caller))
        return [each async for each in found if self._is_visible(caller, each.user)]

    @audited("key.create", Resource.USER, about="user", detail=("kind", "label", "expires_in_ms"))
    async def create(
        self,
        caller: Caller,
        user: str,
        kind: KeyKind,
        *,
        label: str = "",
        expires_in_ms: int | None = None,
    ) -> MadeKey:
        owner = self._access.changeable_user(caller, user)
        if not self._is_visible(caller, user):
            raise UnknownUser(f"user {user!r} is not there")
        return await self._keys.create(
            owner,
            kind,
            label=label,
            expires_in_ms=expires_in_ms,
            administers_cluster=self._access.administers_cluster(caller),
        )

    @audited("key.delete", Resource.USER, detail=("key_id",))
    async def delete(self, caller: Caller, key_id: str) -> None:
        """Who may not remove it is not told whether it is there."""
        owner = self._keys.owner_of(key_id)
        key = self._access.removable_key(caller, key_id, owner)
        if owner is not None and not self._is_visible(caller, owner):
            raise UnknownKey(f"key {key_id!r} is not there")
        await self._keys.delete(key)

    def _is_visible(self, caller: Caller, name: str) -> bool:
        """A key without its user is about to go, too."""
        user = self._users.find(name)
        return user is None or caller.principal.tenant in ("", user.tenant)
