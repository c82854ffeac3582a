"""Keys of users, for HTTP and for SQS. Everyone has its own in hand."""

from goqueue.broker.node import Node
from goqueue.broker.security.keys import MadeKey
from goqueue.model.caller import Caller
from goqueue.model.security.keys import AccessKey, KeyKind
from goqueue.service.access import Access


class KeyService:
    def __init__(self, node: Node, access: Access) -> None:
        self._keys = node.security.keys
        self._access = access

    def list(self, caller: Caller) -> list[AccessKey]:
        """Those that the caller may see: its own, at least."""
        return self._keys.all(self._access.seen_key_users(caller))

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
        return await self._keys.create(owner, kind, label=label, expires_in_ms=expires_in_ms)

    async def delete(self, caller: Caller, key_id: str) -> None:
        """Who may not remove it is not told whether it is there."""
        owner = self._keys.owner_of(key_id)
        await self._keys.delete(self._access.removable_key(caller, key_id, owner))
