"""A name and a password in a body."""

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.model.security.users import NAME_MAX_LENGTH, PASSWORD_MAX_LENGTH

UserName = Annotated[str, Meta(min_length=1, max_length=NAME_MAX_LENGTH)]
Password = Annotated[str, Meta(min_length=1, max_length=PASSWORD_MAX_LENGTH)]


class Credentials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: UserName
    password: Password

    def __repr__(self) -> str:
        return f"Credentials({self.name!r})"
