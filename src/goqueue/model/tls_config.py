"""Settings of TLS, for every door and for what brokers ask each other."""

from dataclasses import dataclass

from goqueue.model.settings import setting


@dataclass(frozen=True, kw_only=True)
class TlsSettings:
    tls_certificate_file: str = setting(
        "",
        doc="PEM file with the certificate of this broker and those between it and the CA; "
        "with it, every door speaks TLS.",
    )
    tls_key_file: str = setting("", doc="PEM file with the private key of the certificate.")
    tls_optional: bool = setting(
        False,
        doc="While a cluster is switched to TLS, broker by broker: doors take connections without "
        "TLS as well, and brokers that have no TLS yet are reached without.",
    )
    tls_client_auth: str = setting(
        "none",
        choices=("none", "requested", "required"),
        doc="Whether clients show a certificate of their own.",
    )
    tls_ca_file: str = setting(
        "",
        doc="PEM file with the CAs that certificates of clients and other brokers are held "
        "against.",
    )
    tls_client_crl_file: str = setting(
        "",
        doc="PEM file with lists of revoked certificates (CRL), one of each CA that makes "
        "certificates of clients; clients with such a certificate are refused.",
    )
    tls_principal_mapping_rules: str = setting(
        "DEFAULT",
        doc="Who a client with a certificate is, by the distinguished name in it: "
        "RULE:pattern/replacement/[LU] and DEFAULT with commas between, the first that fits.",
    )
    # Someone who copies a file over another one expects it to count soon; four looks at files
    # every few seconds cost nothing.
    tls_reload_interval_ms: int = setting(
        5_000,
        minimum=100,
        maximum=3_600_000,
        doc="How often the files of TLS are looked at for changes; SIGHUP looks at once.",
    )
