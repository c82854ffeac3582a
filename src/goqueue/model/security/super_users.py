"""`super.users`: semicolons stand between them, as in Kafka. Names may have commas in them.

A certificate's name such as `CN=ann,O=shop` has. Cut at commas, it would name others than it means,
and whoever chooses a part of a name would choose who may do everything.
"""

import re
from collections.abc import Sequence
from typing import Final

from goqueue.model.errors import InvalidConfig
from goqueue.model.security.users import USER_KIND

SETTING: Final = "super.users"
SEPARATOR: Final = ";"
_PREFIX: Final = f"{USER_KIND}:"
# As the list was written before: it is refused, since it would name somebody who is not there.
_BY_COMMAS: Final = re.compile(rf",\s*{_PREFIX}")


def check_super_users(principals: Sequence[str]) -> None:
    for principal in principals:
        if not principal.removeprefix(_PREFIX) or not principal.startswith(_PREFIX):
            raise InvalidConfig(f"{SETTING}: {principal!r} must be {_PREFIX} and a name")
        if _BY_COMMAS.search(principal):
            raise InvalidConfig(
                f"{SETTING}: {principal!r}: semicolons stand between principals; commas are parts "
                "of their names"
            )
