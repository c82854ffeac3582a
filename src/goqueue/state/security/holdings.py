"""Who has how much of what the metadata says of access, and which keys and tokens are whose. Pure.

It follows the image by what differs, so that a change costs the same with ten keys and with a
hundred thousand.
"""

from collections.abc import Iterator
from typing import Final

from goqueue.model.fairness.headcount import Headcount
from goqueue.model.security.rules import Rule
from goqueue.model.security.tokens import DelegationToken
from goqueue.model.security.users import User
from goqueue.state.metadata_keys import SecurityKind
from goqueue.state.security.image import SecurityImage

# What clients make, and what is therefore divided among tenants.
DIVIDED: Final = (
    SecurityKind.RULE,
    SecurityKind.USER,
    SecurityKind.KEY,
    SecurityKind.TOKEN,
)


class Holdings:
    def __init__(self) -> None:
        self._image = SecurityImage()
        # By tenant.
        self._held = {kind: Headcount() for kind in DIVIDED}
        # A key does not say of which tenant its user was, who may be gone before it.
        self._tenants_of_keys: dict[str, str] = {}
        self._keys_of: dict[str, dict[str, None]] = {}
        self._tokens_of: dict[str, dict[str, None]] = {}

    def use(self, image: SecurityImage) -> "Holdings":
        before, self._image = self._image, image
        if image is before:
            return self
        for _, old_rule, new_rule in image.rules.differences(before.rules):
            self._move(SecurityKind.RULE, _tenant(old_rule), _tenant(new_rule))
        for _, old_user, new_user in image.users.differences(before.users):
            self._move(SecurityKind.USER, _tenant(old_user), _tenant(new_user))
        for name, old_key, new_key in image.keys.differences(before.keys):
            was = self._tenants_of_keys.pop(name, None)
            now = None
            if old_key is not None:
                _take_out(self._keys_of, old_key.user, name)
            if new_key is not None:
                user = image.users.get(new_key.user)
                now = self._tenants_of_keys[name] = "" if user is None else user.tenant
                self._keys_of.setdefault(new_key.user, {})[name] = None
            self._move(SecurityKind.KEY, was, now)
        for name, old_token, new_token in image.tokens.differences(before.tokens):
            self._move(SecurityKind.TOKEN, _tenant(old_token), _tenant(new_token))
            if old_token is not None:
                _take_out(self._tokens_of, old_token.owner, name)
            if new_token is not None:
                self._tokens_of.setdefault(new_token.owner, {})[name] = None
        return self

    def held(self, kind: SecurityKind) -> Headcount:
        return self._held[kind]

    def keys_of(self, user: str) -> Iterator[str]:
        return iter(tuple(self._keys_of.get(user, ())))

    def key_count(self, user: str) -> int:
        return len(self._keys_of.get(user, ()))

    def tokens_of(self, owner: str) -> Iterator[str]:
        """`owner` as tokens have it: the principal as text."""
        return iter(tuple(self._tokens_of.get(owner, ())))

    def _move(self, kind: SecurityKind, was: str | None, now: str | None) -> None:
        if was is not None:
            self._held[kind].remove(was)
        if now is not None:
            self._held[kind].add(now)


def _tenant(thing: Rule | User | DelegationToken | None) -> str | None:
    return None if thing is None else thing.tenant


def _take_out(names: dict[str, dict[str, None]], owner: str, name: str) -> None:
    of_owner = names[owner]
    del of_owner[name]
    if not of_owner:
        del names[owner]
