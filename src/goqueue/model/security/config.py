"""Settings of access: who must log in, and how."""

from dataclasses import dataclass
from typing import Final

from goqueue.model.security.super_users import SEPARATOR
from goqueue.model.settings import INT32_MAX, setting

SASL_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")


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
        (),
        separator=SEPARATOR,
        doc="Principals that may do everything besides administrators, with semicolons between: "
        "User:alice;User:CN=ann,O=shop.",
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
        SASL_MECHANISMS,
        choices=SASL_MECHANISMS,
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
    # An unknown client gets no more of the memory than this; tokens take some kilobytes.
    sasl_server_max_receive_size: int = setting(
        65_536,
        minimum=1_024,
        maximum=524_288,
        doc="The largest Kafka request that is read before log-in; a larger one closes the "
        "connection.",
    )
    # Three round trips. Without a bound, connections could be held by who cannot log in.
    sasl_login_timeout_ms: int = setting(
        10_000,
        minimum=100,
        maximum=600_000,
        doc="A Kafka connection on which nobody logged in after this long is closed.",
    )
    oauth_jwks_file: str = setting(
        "", doc="File with the public keys of the identity provider (JWKS); OAUTHBEARER needs it."
    )
    oauth_jwks_url: str = setting(
        "", doc="Address of the identity provider's public keys, in place of oauth.jwks.file."
    )
    # Kafka's.
    oauth_jwks_refresh_ms: int = setting(
        3_600_000,
        minimum=1_000,
        maximum=INT32_MAX,
        doc="The identity provider's keys are read again after this long.",
    )
    oauth_issuer: str = setting("", doc="Who must have issued a token (claim iss).")
    oauth_audience: tuple[str, ...] = setting(
        (), doc="For whom a token must be meant (claim aud): one of these."
    )
    oauth_principal_claim: str = setting(
        "sub", doc="The claim of a token that has the user's name."
    )
    # Kafka's.
    oauth_clock_skew_ms: int = setting(
        30_000,
        minimum=0,
        maximum=600_000,
        doc="How far the clocks of the identity provider and of this broker may be apart.",
    )
    delegation_token_max_lifetime_ms: int = setting(
        604_800_000,
        minimum=1,
        doc="A delegation token lives no longer than this, however often it is renewed.",
    )
    delegation_token_expiry_time_ms: int = setting(
        86_400_000, minimum=1, doc="A delegation token ends after this long unless it is renewed."
    )
    delegation_token_expiry_check_interval_ms: int = setting(
        3_600_000,
        minimum=100,
        maximum=INT32_MAX,
        doc="How often delegation tokens that ended are removed.",
    )
