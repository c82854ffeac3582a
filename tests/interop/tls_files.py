"""Certificates and servers that use them, for tests of TLS."""

from pathlib import Path

from goqueue.server.tls.making import MadeCertificates, make_certificates
from goqueue.testing import ServerProcess

HOSTS = ("localhost", "127.0.0.1", "::1")


def made(folder: Path, *, client: str | None = None, renew: bool = False) -> MadeCertificates:
    return make_certificates(folder, HOSTS, client=client, renew=renew)


def options(files: MadeCertificates, **settings: str) -> list[str]:
    """For `goqueue serve`; `client_auth="required"` is `tls.client.auth`."""
    values = {
        "certificate_file": str(files.broker),
        "key_file": str(files.broker_key),
        "ca_file": str(files.ca),
        "reload_interval_ms": "100",
        **settings,
    }
    return [
        word
        for name, value in values.items()
        for word in ("--set", f"tls.{name.replace('_', '.')}={value}")
    ]


def tls_server(folder: Path, files: MadeCertificates, **settings: str) -> ServerProcess:
    return ServerProcess(folder, *options(files, **settings))
