"""Decides by what is stored: administrators, super users, and rules."""

from typing import Final

from goqueue.model.caller import Caller, Principal
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.users import BROKER_KIND, USER_KIND
from goqueue.state.security.decisions import Asked, Decisions
from goqueue.state.security.image import SecurityImage

# Decisions that are remembered until rules or users change: about 300 bytes each.
REMEMBERED_MAX: Final = 50_000
# Names are what clients send; longer ones than these are decided each time.
_REMEMBERED_NAME_MAX_LENGTH: Final = 300
_MAPPED_IPV4: Final = "::ffff:"

_Key = tuple[str, int, int, str, Principal]


class StoredRules:
    """Names are those that the caller's tenant uses; what belongs to others it is not asked about
    (`service/security/ownership.py`).

    May be asked from threads; is told of changes on the event loop."""

    def __init__(self, super_users: tuple[str, ...]) -> None:
        self._super_users = frozenset(super_users)
        self._image = SecurityImage()
        self._decisions = Decisions()
        # Replaced after the rules: what was decided by earlier ones goes into an earlier one.
        self._remembered: dict[_Key, bool] = {}

    def use(self, image: SecurityImage) -> None:
        before, self._image = self._image, image
        if image.has_rights_of(before):
            return
        if image.rules is not before.rules:
            # A rule's id tells its content, so that none changes under its id.
            differences = list(image.rules.differences(before.rules))
            self._decisions.change(
                [new for _, _, new in differences if new is not None],
                [old for _, old, _ in differences if old is not None],
            )
        self._remembered = {}

    def allows(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        remembered = self._remembered
        # Numbers, since Python computes the hash of an enum's member by a call of its own.
        key = (name, verb._value_, resource._value_, caller.address, caller.principal)
        found = remembered.get(key)
        if found is not None:
            return found
        decided = self._decide(caller, resource, name, verb)
        if len(name) <= _REMEMBERED_NAME_MAX_LENGTH:
            if len(remembered) >= REMEMBERED_MAX:
                remembered.clear()
            remembered[key] = decided
        return decided

    def _decide(self, caller: Caller, resource: Resource, name: str, verb: Verb) -> bool:
        principal = caller.principal
        is_admin = self._is_admin(principal)
        if not principal.tenant and (
            is_admin
            or principal.kind == BROKER_KIND
            or (self._super_users and str(principal) in self._super_users)
        ):
            return True
        asked = Asked(principal, caller.address.removeprefix(_MAPPED_IPV4))
        return is_admin or self._decisions.allow(asked, resource, name, verb)

    def _is_admin(self, principal: Principal) -> bool:
        user = self._image.users.get(principal.name) if principal.kind == USER_KIND else None
        return user is not None and user.is_admin and user.tenant == principal.tenant
