"""Settings of access: who must log in, and how."""

from dataclasses import dataclass

from goqueue.model.settings import INT32_MAX, setting


@dataclass(frozen=True, kw_only=True)
class SecuritySettings:
    security_enabled: bool = setting(
        False, doc="Clients must log in, and rules say what each of them may do."
    )
    # Where everybody who reaches the port may do everything, somebody should have meant it.
    insecure: bool = setting(
        False, doc="Listen beyond this machine although clients need not log in."
    )
    super_users: tuple[str, ...] = setting(
        (), doc="Principals that may do everything, such as User:alice; besides administrators."
    )
    security_master_key_file: str = setting(
        "",
        doc="File with the key that secrets are made from, readable by the broker alone; the same "
        "for all brokers of a cluster. Empty: master.key in the data directory, made when it is "
        "not there. GOQUEUE_MASTER_KEY is used in its place where it is set.",
    )
    security_bootstrap_file: str = setting(
        "", doc="TOML file with the first users, read while there are none."
    )
    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"),
        choices=("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"),
        doc="How Kafka clients may log in. PLAIN is offered with TLS or from this machine only, "
        "OAUTHBEARER where oauth.jwks.file or oauth.jwks.url is set.",
    )
    # Kafka's. Who guesses waits; who mistypes hardly notices.
    connection_failed_authentication_delay_ms: int = setting(
        100,
        minimum=0,
        maximum=60_000,
        doc="A log-in that failed is answered after this long.",
    )
    connections_max_reauth_ms: int = setting(
        0,
        minimum=0,
        maximum=INT32_MAX,
        doc="A Kafka client must log in again after this long (KIP-368); 0: only when what it "
        "logged in by ends.",
    )
