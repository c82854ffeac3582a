"""Makes certificates: a CA, one for brokers with the names they are reached by, one for clients."""

import ipaddress
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.model.errors import InvalidRequest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509 import Certificate, CertificateBuilder, GeneralName, Name

CA_FILE: Final = "ca.pem"
CA_KEY_FILE: Final = "ca.key"
BROKER_FILE: Final = "broker.pem"
BROKER_KEY_FILE: Final = "broker.key"

# Who trusts the CA must be told of another one; brokers get new certificates from it before that.
CA_DAYS: Final = 3_650
# What browsers and other clients accept at most of a server (398), rounded down.
CERTIFICATE_DAYS: Final = 397
# Clocks differ.
BACKDATED: Final = timedelta(hours=1)
HOSTS_MAX: Final = 100
# RFC 1123, 2.1, with the underscores of container networks; a star stands for one part.
_PART: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME: Final = re.compile(rf"(?:\*\.)?{_PART}(?:\.{_PART})*")
# What `goqueue secure` puts beside certificates of clients, without the ends of their names.
_OTHER_FILES: Final = ("ca", "broker", "master", "revoked")
_KEY_MODE: Final = 0o600
CERTIFICATE_MODE: Final = 0o644


class MadeCertificates(NamedTuple):
    """`client` and `client_key` only where a client was asked for."""

    ca: Path
    ca_key: Path
    broker: Path
    broker_key: Path
    client: Path | None = None
    client_key: Path | None = None


def make_certificates(
    folder: Path,
    hosts: Sequence[str],
    *,
    client: str | None = None,
    days: int = CERTIFICATE_DAYS,
    renew: bool = False,
) -> MadeCertificates:
    """New files in `folder`; keys are for their owner only. `hosts` are names and addresses.

    A CA that lies there already is used again, so that others who trust it need not be told.
    `client` is the common name of a certificate for a client, `<client>.pem` and `<client>.key`.
    `FileExistsError` where one of the others is there already, unless `renew` replaces it.
    """
    for host in hosts:
        _check_host(host)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ca, ca_key = load_ca(folder)
    broker, broker_key = folder / BROKER_FILE, folder / BROKER_KEY_FILE
    _signed(ca, ca_key, broker, broker_key, name=hosts[0], hosts=hosts, days=days, renew=renew)
    made = MadeCertificates(folder / CA_FILE, folder / CA_KEY_FILE, broker, broker_key)
    if client is None:
        return made
    certificate, key = make_client_certificate(folder, client, days=days, renew=renew)
    return made._replace(client=certificate, client_key=key)


def make_client_certificate(
    folder: Path, client: str, *, days: int = CERTIFICATE_DAYS, renew: bool = False
) -> tuple[Path, Path]:
    """It and its key, by the CA in `folder`, with `client` as the common name."""
    certificate, key = _client_files(folder, client)
    ca, ca_key = load_ca(folder)
    _signed(ca, ca_key, certificate, key, name=client, hosts=(), days=days, renew=renew)
    return certificate, key


def _check_host(host: str) -> None:
    """What clients can connect to: neither an URL, nor an address with a port."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # Names do not end in a number: that is an address with a part missing.
        is_name = _HOST_NAME.fullmatch(host) and not host.rpartition(".")[2].isdigit()
        if not is_name:
            raise InvalidRequest(f"hosts: {host!r} is no name or address") from None
    else:
        if address.is_unspecified:
            raise InvalidRequest(f"hosts: {host} is every address, and none to be reached by")


def _client_files(folder: Path, client: str) -> tuple[Path, Path]:
    if not client or "/" in client or client in _OTHER_FILES or client.startswith("."):
        raise InvalidRequest(
            f"client: {client!r} cannot be the name of a file beside {CA_FILE} and {BROKER_FILE}"
        )
    return folder / f"{client}.pem", folder / f"{client}.key"


def load_ca(folder: Path) -> "tuple[Certificate, EllipticCurvePrivateKey]":
    """The CA in `folder`, which is made if it is not there."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    certificate_path, key_path = folder / CA_FILE, folder / CA_KEY_FILE
    if key_path.exists():
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        known = serialization.load_pem_private_key(key_path.read_bytes(), None)
        if not isinstance(known, ec.EllipticCurvePrivateKey):
            raise InvalidRequest(f"{key_path}: is not a key that was made here")
        return certificate, known
    key = ec.generate_private_key(ec.SECP256R1())
    # A number in its name: several CAs of one machine can be told apart.
    name = _name(f"GoQueue CA {x509.random_serial_number() % 1_000_000:06}")
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _begun(name, name, key, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, _sha_256())
    )
    _write_pair(certificate_path, certificate, key_path, key)
    return certificate, key


def _signed(
    ca: "Certificate",
    ca_key: "EllipticCurvePrivateKey",
    certificate_path: Path,
    key_path: Path,
    *,
    name: str,
    hosts: Sequence[str],
    days: int,
    renew: bool,
) -> None:
    """Brokers are servers, and clients of each other."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        _begun(_name(name), ca.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
    )
    if hosts:
        uses.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
        names = x509.SubjectAlternativeName(_alternative_names(hosts))
        builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    _write_pair(certificate_path, builder.sign(ca_key, _sha_256()), key_path, key, renew=renew)


def _begun(
    subject: "Name", issuer: "Name", key: "EllipticCurvePrivateKey", days: int
) -> "CertificateBuilder":
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(days=days))
    )


def _name(common_name: str) -> "Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    except ValueError as error:
        raise InvalidRequest(
            f"{common_name!r} cannot be the name in a certificate: {error}"
        ) from error


def _alternative_names(hosts: Sequence[str]) -> "list[GeneralName]":
    from cryptography import x509

    if len(hosts) > HOSTS_MAX:
        raise InvalidRequest(f"hosts: {len(hosts)} are more than {HOSTS_MAX}")
    names: list[GeneralName] = []
    for host in dict.fromkeys(hosts):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names


def _sha_256() -> "SHA256":
    from cryptography.hazmat.primitives.hashes import SHA256

    return SHA256()


def _write_pair(
    certificate_path: Path,
    certificate: "Certificate",
    key_path: Path,
    key: "EllipticCurvePrivateKey",
    *,
    renew: bool = False,
) -> None:
    from cryptography.hazmat.primitives import serialization

    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_file(key_path, private, _KEY_MODE, renew=renew)
    public = certificate.public_bytes(serialization.Encoding.PEM)
    write_file(certificate_path, public, CERTIFICATE_MODE, renew=renew)


def write_file(path: Path, content: bytes, mode: int, *, renew: bool) -> None:
    """Whole or not at all where it replaces another."""
    written = path.with_name(path.name + ".new") if renew else path
    if renew:
        written.unlink(missing_ok=True)
    file = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(file, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    if renew:
        written.rename(path)
