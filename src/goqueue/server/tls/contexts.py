"""What the doors' TLS is made of: files as the settings name them, held against each other."""

import logging
import stat
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple, NoReturn, cast

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import (
    Certificate,
    CertificateRevocationList,
    load_pem_x509_certificates,
)
from OpenSSL import SSL, crypto

from goqueue.doors.tls.failures import reason_of
from goqueue.doors.tls.records import missing
from goqueue.model.broker_config import BrokerConfig
from goqueue.server.addresses import StartFailed
from goqueue.server.tls.client_trust import ClientTrust, client_trust
from goqueue.server.tls.protocol import new_context
from goqueue.server.tls.revoking import lists_in
from goqueue.server.tls.settings import CA, CERTIFICATE, CRL, KEY

log = logging.getLogger(__name__)

_CLIENT_AUTH: Final = {
    "none": SSL.VERIFY_NONE,
    "requested": SSL.VERIFY_PEER,
    "required": SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT,
}
# A file of certificates or lists. A list of 100,000 revoked certificates has 5.2 MB, takes 0.1 s to
# read, of which others wait for 45 ms at a time, and 5 ms of each handshake: OpenSSL looks at its
# signature again.
FILE_MAX_BYTES: Final = 8 * 1024 * 1024
# Before its end, a certificate is worth a line at each start.
_NEAR_END_S: Final = 7 * 24 * 3_600


class LoadedTls(NamedTuple):
    context: SSL.Context
    # When the first of the certificates ends that are shown to clients.
    expires_s: float
    # When the first list of revoked certificates must have been replaced; None: there is none.
    crl_expires_s: float | None
    trust: ClientTrust


class FileStamp(NamedTuple):
    """Another one: the file has changed."""

    inode: int
    size_bytes: int
    changed_ns: int


def stamps(config: BrokerConfig) -> tuple[FileStamp | None, ...]:
    """Blocking. None for a file that is not there at the moment."""
    paths = (
        config.tls_certificate_file,
        config.tls_key_file,
        config.tls_ca_file,
        config.tls_client_crl_file,
    )
    return tuple(_stamp(path) for path in paths if path)


def load_tls(config: BrokerConfig) -> LoadedTls:
    """Blocking; `StartFailed` names the setting and says what to do."""
    _check_libraries()
    context = new_context()
    expires_s = _load_chain(context, config)
    cas = _certificates(CA, config.tls_ca_file) if config.tls_ca_file else []
    lists = _lists(config.tls_client_crl_file) if config.tls_client_crl_file else []
    _load_trust(context, cas, lists)
    context.set_verify(_CLIENT_AUTH[config.tls_client_auth])
    ends = [each.next_update_utc for each in lists if each.next_update_utc is not None]
    crl_expires_s = min(ends).timestamp() if ends else None
    return LoadedTls(context, expires_s, crl_expires_s, client_trust(cas, lists))


def _check_libraries() -> None:
    lacks = missing()
    if lacks:
        raise StartFailed(
            f"{CERTIFICATE}: this pyOpenSSL ({version('pyopenssl')}) and cryptography "
            f"({version('cryptography')}) do not go together with this release, which needs "
            f"{', '.join(lacks)}; install the versions that constraints.txt names"
        )


def warn_of_ends(loaded: LoadedTls, config: BrokerConfig) -> None:
    path, left_s = config.tls_certificate_file, loaded.expires_s - time.time()
    if left_s <= 0:
        log.error("the certificate in %s is expired: clients refuse it", path)
    elif left_s < _NEAR_END_S:
        log.warning("the certificate in %s ends in %.1f days", path, left_s / 86_400)
    if loaded.crl_expires_s is not None and loaded.crl_expires_s <= time.time():
        log.error(
            "the list of revoked certificates in %s is out of date: clients that show a "
            "certificate are refused until there is a newer one",
            config.tls_client_crl_file,
        )


def _stamp(path: str) -> FileStamp | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return FileStamp(found.st_ino, found.st_size, found.st_mtime_ns)


def _read(setting: str, path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_MAX_BYTES + 1)
    except OSError as error:
        _not_read(setting, path, error)
    if len(content) > FILE_MAX_BYTES:
        raise StartFailed(f"{setting}: {path} is larger than {FILE_MAX_BYTES} bytes")
    return content


def _not_read(setting: str, path: str, error: OSError) -> NoReturn:
    raise StartFailed(f"{setting}: {path} cannot be read: {error.strerror or error}") from None


def _check_key(path: Path) -> None:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        _not_read(KEY, str(path), error)
    if mode & stat.S_IRWXO:
        raise StartFailed(
            f"{KEY}: everybody on this machine may use {path} (mode {mode:o}); run: "
            f"chmod 600 {path}"
        )
    if mode & stat.S_IRWXG:
        # As secrets are mounted in Kubernetes.
        log.warning("%s: the group of %s may use it, too (mode %o)", KEY, path, mode)


def _load_chain(context: SSL.Context, config: BrokerConfig) -> float:
    """When the first certificate of it ends."""
    path, key_path = config.tls_certificate_file, config.tls_key_file
    chain = _certificates(CERTIFICATE, path)
    _check_key(Path(key_path))
    key = _private_key(key_path)
    try:
        context.use_certificate(chain[0])
        for each in chain[1:]:
            context.add_extra_chain_cert(each)
        if key.public_key() != chain[0].public_key():
            raise StartFailed(f"{KEY}: {key_path} is not the key of the certificate in {path}")
        context.use_privatekey(key)
    except SSL.Error as error:
        raise StartFailed(
            f"{CERTIFICATE}: {path} and {key_path} cannot be used ({reason_of(error)})"
        ) from None
    return min(each.not_valid_after_utc.timestamp() for each in chain)


def _private_key(path: str) -> EllipticCurvePrivateKey:
    """Of any kind; elliptic curves stand for them all."""
    try:
        return cast(EllipticCurvePrivateKey, load_pem_private_key(_read(KEY, path), None))
    except TypeError:
        raise StartFailed(
            f"{KEY}: {path} is protected by a password, which nobody could type when the broker "
            f"is restarted; write it without: openssl pkey -in {path} -out NEW"
        ) from None
    except ValueError as error:
        raise StartFailed(f"{KEY}: {path} is not a key in PEM form ({error})") from None


def _certificates(setting: str, path: str) -> list[Certificate]:
    try:
        return load_pem_x509_certificates(_read(setting, path))
    except ValueError as error:
        raise StartFailed(f"{setting}: {path} has no certificates in PEM form ({error})") from None


def _lists(path: str) -> list[CertificateRevocationList]:
    try:
        found = lists_in(_read(CRL, path))
    except ValueError as error:
        raise StartFailed(
            f"{CRL}: {path} has a list of revoked certificates that cannot be read ({error})"
        ) from None
    if not found:
        raise StartFailed(f"{CRL}: {path} has no list of revoked certificates in PEM form")
    return found


def _load_trust(
    context: SSL.Context, cas: Sequence[Certificate], lists: Sequence[CertificateRevocationList]
) -> None:
    store = context.get_cert_store()
    assert store is not None
    for ca in cas:
        store.add_cert(crypto.X509.from_cryptography(ca))
    for each in lists:
        store.add_crl(each)
    if lists:
        # Also those between the client's certificate and the CA.
        flags = crypto.X509StoreFlags
        store.set_flags(flags.CRL_CHECK | flags.CRL_CHECK_ALL)
