"""Rights to users, their keys and tokens, and rules."""

from goqueue.model.caller import Caller
from goqueue.model.rights import (
    CLUSTER_NAME,
    AlterableCluster,
    ChangeableUser,
    DescribableCluster,
    RemovableKey,
    Resource,
    SeenKeyUsers,
    TokenOwner,
    Verb,
)
from goqueue.model.security.tokens import DelegationToken
from goqueue.service.security.rights.deciding import Deciding


class AccountRights(Deciding):
    def alterable_accounts(self, caller: Caller) -> AlterableCluster:
        """May change users, their keys and the rules of its tenant; those of all tenants, if it has
        none. Kafka has no other right for it than the one to change the cluster."""
        self._check_rule(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.ALTER)
        return AlterableCluster(CLUSTER_NAME)

    def describable_accounts(self, caller: Caller) -> DescribableCluster:
        self._check_rule(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.DESCRIBE)
        return DescribableCluster(CLUSTER_NAME)

    def changeable_user(self, caller: Caller, name: str) -> ChangeableUser:
        """Everyone may change its own password, and make keys of its own."""
        if not self._is_self(caller, name):
            self.alterable_accounts(caller)
        return ChangeableUser(name)

    def token_owner(self, caller: Caller, owner: str) -> TokenOwner:
        """Everyone may make delegation tokens of its own (KIP-373)."""
        if owner != str(caller.principal):
            self._check(caller, Resource.USER, owner, Verb.CREATE_TOKENS)
        return TokenOwner(owner)

    def sees_token(self, caller: Caller, token: DelegationToken) -> bool:
        """Its owner, those who may renew it, and who may see it or all of its owner."""
        asks, tenant = str(caller.principal), caller.principal.tenant
        is_named = tenant == token.tenant and asks in (token.owner, *token.renewers)
        sees_it = self.allows(caller, Resource.DELEGATION_TOKEN, token.id, Verb.DESCRIBE)
        sees_all = self.allows(caller, Resource.USER, token.owner, Verb.DESCRIBE_TOKENS)
        return is_named or sees_it or sees_all

    def removable_key(self, caller: Caller, key_id: str, owner: str | None) -> RemovableKey:
        if owner is None or not self._is_self(caller, owner):
            self.alterable_accounts(caller)
        return RemovableKey(key_id)

    def seen_key_users(self, caller: Caller) -> SeenKeyUsers:
        """All with the right to see the cluster, else oneself; those of other tenants are left out
        by whoever lists them."""
        if self._rule_allows(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.DESCRIBE):
            return SeenKeyUsers(lambda _: True)
        return SeenKeyUsers(lambda name: self._is_self(caller, name))

    def _is_self(self, caller: Caller, name: str) -> bool:
        """Not by the name alone: somebody from outside may have that of a tenant's user."""
        user = self._user_of(name)
        return user is not None and user.principal == caller.principal
