"""Settings of TLS, held against each other. It loads no library: every broker asks at its start."""

from typing import Final

from goqueue.model.broker_config import BrokerConfig
from goqueue.server.addresses import StartFailed

CERTIFICATE: Final = "tls.certificate.file"
KEY: Final = "tls.key.file"
CA: Final = "tls.ca.file"
CRL: Final = "tls.client.crl.file"


def check_settings(config: BrokerConfig) -> None:
    """`StartFailed` names the setting and says what to do."""
    if not config.tls_certificate_file:
        _check_without_certificate(config)
        return
    if not config.tls_key_file:
        raise StartFailed(f"{KEY}: is not set; name the private key of {CERTIFICATE}")
    if config.tls_client_auth != "none" and not config.tls_ca_file:
        raise StartFailed(
            f"{CA}: is not set; tls.client.auth {config.tls_client_auth} needs the CAs that "
            "clients' certificates are held against"
        )
    if config.tls_client_crl_file and config.tls_client_auth == "none":
        raise StartFailed(
            f"{CRL}: is set, but tls.client.auth is none; no client is asked for a certificate "
            "that could be in it"
        )
    if config.tls_optional and config.tls_client_auth == "required":
        raise StartFailed(
            "tls.optional: is set, but tls.client.auth requires a certificate of every client; "
            "who comes without TLS has none"
        )


def _check_without_certificate(config: BrokerConfig) -> None:
    """Settings that would count for nothing: somebody takes the broker for safe."""
    given = {
        KEY: config.tls_key_file,
        CRL: config.tls_client_crl_file,
        "tls.client.auth": config.tls_client_auth != "none",
    }
    for setting, is_given in given.items():
        if is_given:
            raise StartFailed(
                f"{setting}: is set, but {CERTIFICATE} is not; without it there is no TLS"
            )
