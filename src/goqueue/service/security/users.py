"""Users: who there is, and what they log in by. Of passwords nothing leaves the broker."""

import asyncio
from collections.abc import Mapping, Sequence

from goqueue.broker.node import Node
from goqueue.broker.security.users import records_of
from goqueue.model.caller import Caller
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource
from goqueue.model.security.errors import (
    LastAdministrator,
    NamedTwice,
    UnknownCredential,
    UnknownTenant,
    UnknownUser,
)
from goqueue.model.security.scram_changes import ScramChange
from goqueue.model.security.users import ScramRecord, User, check_password, check_user_name
from goqueue.pace import sorted_in_slices
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited
from goqueue.state.security.scram_changes import by_user


class UserService:
    """Who belongs to a tenant knows only the users of that tenant."""

    def __init__(self, node: Node, access: Access) -> None:
        self._security = node.security
        self._super_users = node.config.super_users
        self._users = node.security.users
        self._access = access

    async def users(self, caller: Caller) -> list[User]:
        """By name; in slices, as there may be many."""
        everyone = self._users.all(self._access.describable_accounts(caller))
        found = (each for each in everyone.values() if _is_visible(caller, each))
        return [each async for each in sorted_in_slices(found, lambda each: each.name)]

    def user(self, caller: Caller, name: str) -> User:
        found = self._users.all(self._access.describable_accounts(caller)).get(name)
        if found is None or not _is_visible(caller, found):
            raise UnknownUser(f"user {name!r} is not there")
        return found

    @audited(
        "user.create", Resource.USER, about="name", detail=("is_admin", "tenant", "is_federated")
    )
    async def create(
        self,
        caller: Caller,
        name: str,
        password: str | None = None,
        *,
        is_admin: bool = False,
        tenant: str = "",
        is_federated: bool = False,
    ) -> User:
        """Without a password it logs in by keys, certificates or tokens alone."""
        cluster = self._access.alterable_accounts(caller)
        if is_federated:
            self._access.alterable_cluster(caller)
        check_user_name(name)
        scram = {} if password is None else await _records(password)
        tenant = caller.principal.tenant or tenant
        if tenant and tenant not in self._security.image.tenants:
            raise UnknownTenant(f"tenant {tenant!r} is not there")
        return await self._users.create(
            cluster,
            name,
            scram=scram,
            tenant=tenant,
            is_admin=is_admin,
            administers_cluster=self._access.administers_cluster(caller),
            is_federated=is_federated,
        )

    @audited("user.password", Resource.USER, about="name")
    async def set_password(self, caller: Caller, name: str, password: str) -> None:
        """Everyone may set its own."""
        user = self._access.changeable_user(caller, name)
        self._check_visible(caller, name)
        await self._users.set_password(user, await _records(password))

    @audited("user.admin", Resource.USER, about="name", detail=("is_admin",))
    async def set_admin(self, caller: Caller, name: str, is_admin: bool) -> None:
        cluster = self._access.alterable_accounts(caller)
        self._check_visible(caller, name)
        if not is_admin:
            self._check_another_administrator(name, "demoted")
        await self._users.set_admin(cluster, name, is_admin)

    @audited("user.federated", Resource.USER, about="name", detail=("is_federated",))
    async def set_federated(self, caller: Caller, name: str, is_federated: bool) -> None:
        """Whether the name means this user also where an identity provider or a certificate tells
        it. Not for tenants: they would have what those of other tenants send."""
        cluster = self._access.alterable_cluster(caller)
        await self._users.set_federated(cluster, name, is_federated)

    @audited("user.delete", Resource.USER, about="name")
    async def delete(self, caller: Caller, name: str) -> None:
        """With its keys and tokens; its open connections end."""
        cluster = self._access.alterable_accounts(caller)
        self._check_visible(caller, name)
        self._check_another_administrator(name, "deleted")
        await self._users.delete(cluster, name)

    @audited("user.scram", Resource.USER, about="name", detail=("changes",))
    async def alter_scram(
        self, caller: Caller, name: str, changes: Mapping[str, ScramRecord | None]
    ) -> None:
        """Set or remove (None) what a user logs in by, by mechanism (KIP-554). One that is not
        there is made; one whose last credential is removed, and which has no keys, is gone."""
        cluster = self._access.alterable_accounts(caller)
        user = self._users.find(name)
        if user is not None and not any({**user.scram, **changes}.values()):
            self._check_another_administrator(name, "left without a password")
        await self._users.set_scram(
            cluster,
            name,
            changes,
            tenant=caller.principal.tenant,
            administers_cluster=self._access.administers_cluster(caller),
        )

    async def alter_credentials(
        self, caller: Caller, changes: Sequence[ScramChange]
    ) -> dict[str, GoQueueError | None]:
        """As `alter_scram`, for many users: what went wrong by user, who keeps what it had then."""
        told: dict[str, GoQueueError | None] = {}
        for name, wanted in by_user(changes).items():
            try:
                if isinstance(wanted, GoQueueError):
                    self._access.alterable_accounts(caller)
                    raise wanted
                await self.alter_scram(caller, name, wanted)
            except GoQueueError as error:
                told[name] = error
            else:
                told[name] = None
        return told

    async def credentials(
        self, caller: Caller, names: Sequence[str]
    ) -> dict[str, Mapping[str, ScramRecord] | GoQueueError]:
        """By user, for those who have any; without names, of all."""
        known = {user.name: user for user in await self.users(caller) if user.scram}
        told: dict[str, Mapping[str, ScramRecord] | GoQueueError] = {}
        for name in names or known:
            user = known.get(name)
            if name in told:
                told[name] = NamedTwice(f"user {name!r} is named twice in the request")
            elif user is None:
                told[name] = UnknownCredential(f"user {name!r} has no SCRAM credential")
            else:
                told[name] = user.scram
        return told

    def _check_another_administrator(self, name: str, what: str) -> None:
        """Nobody could undo it, but on a stopped broker. Of a tenant's administrators somebody can
        make more who has none."""
        if not self._security.is_on or self._super_users:
            return
        users = self._security.image.users.values()
        if [each.name for each in users if each.is_admin and not each.tenant] == [name]:
            raise LastAdministrator(
                f"{name} is the only administrator and is not {what}: make another one first"
            )

    def _check_visible(self, caller: Caller, name: str) -> None:
        user = self._users.find(name)
        if user is not None and not _is_visible(caller, user):
            raise UnknownUser(f"user {name!r} is not there")


def _is_visible(caller: Caller, user: User) -> bool:
    return caller.principal.tenant in ("", user.tenant)


async def _records(password: str) -> dict[str, ScramRecord]:
    check_password(password)
    return await asyncio.to_thread(records_of, password)
