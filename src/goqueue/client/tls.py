"""TLS from the client's side: who answers must have a certificate for the name it was called by."""

import ssl
from pathlib import Path
from typing import Final

from goqueue.model.client_security import ClientSecurity
from goqueue.model.errors import InvalidConfig

# Contexts that were made: a process has one or two identities.
_KEPT_MAX: Final = 16

_Stamps = tuple[tuple[int, int, int], ...]
_kept: dict[ClientSecurity, tuple[_Stamps, ssl.SSLContext]] = {}


def tls_context(security: ClientSecurity) -> ssl.SSLContext | None:
    """None: no TLS. Files that have changed since are read again."""
    if not security.tls:
        return None
    stamps = _stamps(security)
    kept = _kept.get(security)
    if kept is not None and kept[0] == stamps:
        return kept[1]
    context = _context(security)
    if len(_kept) >= _KEPT_MAX:
        _kept.clear()
    _kept[security] = stamps, context
    return context


def _context(security: ClientSecurity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if security.ca_file:
            context.load_verify_locations(cafile=security.ca_file)
        else:
            context.load_default_certs()
    except ssl.SSLError as error:
        raise InvalidConfig(
            f"{security.ca_file} has no certificates in PEM form ({error.reason or error})"
        ) from None
    if security.certificate_file:
        try:
            context.load_cert_chain(
                security.certificate_file, security.key_file, password=_no_password
            )
        except ssl.SSLError as error:
            raise InvalidConfig(
                f"{security.certificate_file} and {security.key_file} are not a certificate and "
                f"its key in PEM form ({error.reason or error})"
            ) from None
    return context


def _no_password() -> str:
    raise InvalidConfig("the private key is protected by a password; write it without one")


def _stamps(security: ClientSecurity) -> _Stamps:
    found = []
    for path in (security.ca_file, security.certificate_file, security.key_file):
        if path:
            try:
                told = Path(path).stat()
            except OSError as error:
                raise InvalidConfig(f"{path} cannot be read: {error.strerror or error}") from None
            found.append((told.st_ino, told.st_size, told.st_mtime_ns))
    return tuple(found)
