"""What the doors' TLS is made of: files as the settings name them, held against each other."""

import logging
import ssl
import stat
import time
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from goqueue.model.broker_config import BrokerConfig
from goqueue.server.addresses import StartFailed

log = logging.getLogger(__name__)

_CERTIFICATE: Final = "tls.certificate.file"
_KEY: Final = "tls.key.file"
_CA: Final = "tls.ca.file"
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_MISMATCH: Final = "KEY_VALUES_MISMATCH"
# A file of certificates; no CA bundle is as large.
FILE_MAX_BYTES: Final = 4 * 1024 * 1024
# Before its end, a certificate is worth a line at each start.
_NEAR_END_S: Final = 7 * 24 * 3_600


class LoadedTls(NamedTuple):
    context: ssl.SSLContext
    # When the first of the certificates ends that are shown to clients.
    expires_s: float


class FileStamp(NamedTuple):
    """Another one: the file has changed."""

    inode: int
    size_bytes: int
    changed_ns: int


def stamps(config: BrokerConfig) -> tuple[FileStamp | None, ...]:
    """Blocking. None for a file that is not there at the moment."""
    paths = (config.tls_certificate_file, config.tls_key_file, config.tls_ca_file)
    return tuple(_stamp(path) for path in paths if path)


def load_tls(config: BrokerConfig) -> LoadedTls:
    """Blocking; `StartFailed` names the setting and says what to do."""
    if not config.tls_key_file:
        raise StartFailed(f"{_KEY}: is not set; name the private key of {_CERTIFICATE}")
    if config.tls_client_auth != "none" and not config.tls_ca_file:
        raise StartFailed(
            f"{_CA}: is not set; tls.client.auth {config.tls_client_auth} needs the CAs that "
            "clients' certificates are held against"
        )
    if config.tls_optional and config.tls_client_auth == "required":
        raise StartFailed(
            "tls.optional: is set, but tls.client.auth requires a certificate of every client; "
            "who comes without TLS has none"
        )
    certificates = _read(_CERTIFICATE, config.tls_certificate_file)
    _check_key(Path(config.tls_key_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_chain(context, config)
    if config.tls_ca_file:
        _load_ca(context, config.tls_ca_file)
    context.verify_mode = _CLIENT_AUTH[config.tls_client_auth]
    return LoadedTls(context, _expiry_s(certificates, config.tls_certificate_file))


def check_without_certificate(config: BrokerConfig) -> None:
    """Settings of TLS that would count for nothing: somebody takes the broker for safe."""
    if config.tls_key_file or config.tls_client_auth != "none":
        setting = _KEY if config.tls_key_file else "tls.client.auth"
        raise StartFailed(
            f"{setting}: is set, but {_CERTIFICATE} is not; without it there is no TLS"
        )


def warn_of_end(expires_s: float, path: str) -> None:
    left_s = expires_s - time.time()
    if left_s <= 0:
        log.error("the certificate in %s is expired: clients refuse it", path)
    elif left_s < _NEAR_END_S:
        log.warning("the certificate in %s ends in %.1f days", path, left_s / 86_400)


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
        _not_read(_KEY, str(path), error)
    if mode & stat.S_IRWXO:
        raise StartFailed(
            f"{_KEY}: everybody on this machine may use {path} (mode {mode:o}); run: "
            f"chmod 600 {path}"
        )
    if mode & stat.S_IRWXG:
        # As secrets are mounted in Kubernetes.
        log.warning("%s: the group of %s may use it, too (mode %o)", _KEY, path, mode)


def _load_chain(context: ssl.SSLContext, config: BrokerConfig) -> None:
    certificate, key = config.tls_certificate_file, config.tls_key_file

    def no_password() -> str:
        raise StartFailed(
            f"{_KEY}: {key} is protected by a password, which nobody could type when the broker is "
            f"restarted; write it without: openssl pkey -in {key} -out NEW"
        )

    try:
        context.load_cert_chain(certificate, key, password=no_password)
    except ssl.SSLError as error:
        if error.reason == _MISMATCH:
            raise StartFailed(
                f"{_KEY}: {key} is not the key of the certificate in {certificate}"
            ) from None
        raise StartFailed(
            f"{_CERTIFICATE}: {certificate} and {key} are not a certificate and its key in PEM form"
            f" ({error.reason or error})"
        ) from None
    except OSError as error:
        _not_read(_KEY, key, error)


def _load_ca(context: ssl.SSLContext, path: str) -> None:
    _read(_CA, path)
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise StartFailed(
            f"{_CA}: {path} has no certificates in PEM form ({error.reason or error})"
        ) from None


def _expiry_s(content: bytes, path: str) -> float:
    from cryptography import x509  # only where there is TLS

    try:
        found = x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise StartFailed(f"{_CERTIFICATE}: {path} cannot be read: {error}") from None
    return min(each.not_valid_after_utc.timestamp() for each in found)
