"""The room of access: what is stored of it, and who is told when it changes."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from goqueue.broker.security.between_brokers import security_between_brokers, without_tls
from goqueue.broker.security.failed_logins import FailedLogins
from goqueue.broker.security.guesses import Guesses
from goqueue.broker.security.keys import AccessKeys
from goqueue.broker.security.master_key import FILE_NAME, MasterKey
from goqueue.broker.security.oauth.bearer_tokens import open_bearer_tokens
from goqueue.broker.security.passwords import Passwords
from goqueue.broker.security.rules import RuleBook
from goqueue.broker.security.scram_records import ScramRecords
from goqueue.broker.security.sessions import Sessions
from goqueue.broker.security.stored_rules import StoredRules
from goqueue.broker.security.tenant_shares import TenantShares
from goqueue.broker.security.tenants import Tenants
from goqueue.broker.security.tokens import Tokens
from goqueue.broker.security.users import Users
from goqueue.broker.topics.changing import KeyChanges
from goqueue.broker.topics.following import MetadataFollower
from goqueue.metadata.store import MetadataStore
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.client_security import ClientSecurity
from goqueue.state.security.image import SecurityImage


class Security:
    def __init__(
        self,
        config: BrokerConfig,
        changes: KeyChanges,
        follower: MetadataFollower,
        clock_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._follower = follower
        self.is_on = config.security_enabled
        self.clock_ms = clock_ms
        shares = TenantShares(follower, is_secured=self.is_on)
        self.users = Users(changes, follower, clock_ms, shares)
        self.tenants = Tenants(changes, follower, clock_ms)
        self.rules = StoredRules(config.super_users)
        self.rule_book = RuleBook(changes, follower, shares)
        self.guesses = Guesses()
        self.passwords = Passwords(self.guesses)
        self.tokens = Tokens(config, changes, follower, clock_ms, lambda: self.master_key, shares)
        # None: there is no identity provider.
        self.bearer_tokens = open_bearer_tokens(config)
        self.failed_logins = FailedLogins(config.connection_failed_authentication_delay_ms)
        self.keys = AccessKeys(changes, follower, clock_ms, lambda: self.master_key, shares)
        self.sessions = Sessions(changes, follower, clock_ms, lambda: self.master_key)
        # Called after each change of the image, and once at the start.
        self.listeners: list[Callable[[SecurityImage], None]] = [self.rules.use]
        # Called after them, when somebody may have got or lost a right.
        self.rights_listeners: list[Callable[[], None]] = []
        self._told = SecurityImage()

    @property
    def image(self) -> SecurityImage:
        return self._follower.image.security

    @cached_property
    def master_key(self) -> MasterKey:
        """Brokers of a cluster must be given theirs: each would make another one."""
        given = self._config.security_master_key_file
        path = Path(given) if given else self._config.data_dir / FILE_NAME
        return MasterKey.load(path, may_make=not given and not self._config.cluster)

    async def begin(self, store: MetadataStore) -> None:
        """Before the metadata is read: where a file has first users, they are made."""
        if self._config.security_bootstrap_file:
            from goqueue.broker.security.first_users import begin_with  # once in a broker's life

            await begin_with(store, Path(self._config.security_bootstrap_file), self.clock_ms())

    @cached_property
    def scram_records(self) -> ScramRecords:
        return ScramRecords(self.master_key, lambda: self.image, self.clock_ms)

    def towards(self, host: str, port: int) -> ClientSecurity:
        """How this broker reaches another one."""
        if self._config.tls_optional:
            brokers = self._follower.image.brokers.values()
            reached = (each for each in brokers if (each.host, each.kafka_port) == (host, port))
            if any(not each.has_tls for each in reached):
                return without_tls(self._between_brokers)
        return self._between_brokers

    @cached_property
    def _between_brokers(self) -> ClientSecurity:
        return security_between_brokers(self._config, self.master_key if self.is_on else None)

    def changed(self) -> None:
        before, self._told = self._told, self.image
        for listener in self.listeners:
            listener(self.image)
        if not self.image.has_rights_of(before):
            for told in self.rights_listeners:
                told()
