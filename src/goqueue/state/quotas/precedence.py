"""Which quota holds for a client: the first of eight forms that has a value (KIP-55).

    quota of                               counted together
    1  this user and this client id        the user's clients of that id
    2  this user, any other client id      the user's clients of that id
    3  this user                           all clients of the user
    4  any other user, this client id      the user's clients of that id
    5  any other user, any other id        the user's clients of that id
    6  any other user                      all clients of the user
    7  this client id                      clients of that id, of all users
    8  any other client id                 clients of that id, of all users

Of addresses it is that of the address, else that of all others. Each kind of quota is looked for
by itself.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from goqueue.model.security.quotas import Quota, QuotaEntity, QuotaKind, QuotaOwner

_ANY: Final = ""


class Held(NamedTuple):
    """What somebody is held to."""

    owner: QuotaOwner
    rate: float


class QuotaTable:
    def __init__(self, quotas: Iterable[Quota]) -> None:
        by_kind: dict[str, dict[QuotaEntity, float]] = {kind.value: {} for kind in QuotaKind}
        for quota in quotas:
            for name, value in quota.values.items():
                # A later release may know more of them.
                if name in by_kind:
                    by_kind[name][quota.entity] = value
        self._by_kind: Mapping[QuotaKind, Mapping[QuotaEntity, float]] = {
            kind: by_kind[kind.value] for kind in QuotaKind
        }

    def __bool__(self) -> bool:
        return any(self._by_kind.values())

    def of_client(self, kind: QuotaKind, user: str, client_id: str) -> Held | None:
        rates = self._by_kind[kind]
        if not rates:
            return None
        both, user_alone = QuotaOwner(user, client_id), QuotaOwner(user)
        client_alone = QuotaOwner(client_id=client_id)
        for entity, owner in (
            (QuotaEntity(user, client_id), both),
            (QuotaEntity(user, _ANY), both),
            (QuotaEntity(user), user_alone),
            (QuotaEntity(_ANY, client_id), both),
            (QuotaEntity(_ANY, _ANY), both),
            (QuotaEntity(_ANY), user_alone),
            (QuotaEntity(client_id=client_id), client_alone),
            (QuotaEntity(client_id=_ANY), client_alone),
        ):
            rate = rates.get(entity)
            if rate is not None:
                return Held(owner, rate)
        return None

    def of_address(self, ip: str) -> Held | None:
        rates = self._by_kind[QuotaKind.CONNECTIONS]
        for entity in (QuotaEntity(ip=ip), QuotaEntity(ip=_ANY)):
            rate = rates.get(entity)
            if rate is not None:
                return Held(QuotaOwner(ip=ip), rate)
        return None
