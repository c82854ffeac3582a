"""Whether a broker would let everybody in who reaches this machine, and nobody said so."""

import ipaddress
import logging
import socket
from typing import Final

from goqueue.model.broker_config import BrokerConfig
from goqueue.server.addresses import StartFailed

log = logging.getLogger(__name__)

_LOCAL_NAMES: Final = ("localhost", "localhost.localdomain", "ip6-localhost")


def check_exposure(config: BrokerConfig) -> None:
    """`StartFailed` for a broker that others reach, and nobody needs to log in to."""
    if is_loopback(config.host):
        return
    if not config.security_enabled:
        if not config.insecure:
            raise StartFailed(_refusal(config.host))
        log.warning(
            "listening on %s without log-ins: whoever reaches it may read, write and delete "
            "everything (insecure)",
            config.host or "every address",
        )
    elif not config.tls_certificate_file:
        log.warning(
            "listening on %s without TLS: passwords and keys of HTTP clients can be read on their "
            "way; set tls.certificate.file and tls.key.file",
            config.host or "every address",
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there. A name that nobody knows is: nothing
    can listen on it, and who tries says why."""
    if host in _LOCAL_NAMES:
        return True
    if not host:
        return False
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return True
    return all(ipaddress.ip_address(address[4][0]).is_loopback for address in found)


def _refusal(host: str) -> str:
    return (
        f"host: {host or 'every address'} can be reached from other machines, and nobody would "
        "need to log in. Secure it: `goqueue secure init` makes certificates, an administrator and "
        "a goqueue.toml for `goqueue serve --config` (docs/security.md). Or say that everybody who "
        "reaches it may do everything: --insecure, or insecure=true among the settings"
    )
