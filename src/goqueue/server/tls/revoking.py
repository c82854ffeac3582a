"""Takes certificates back that a CA made here has signed: brokers read the list (RFC 5280, 5)."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import InvalidRequest
from goqueue.server.tls.making import (
    BACKDATED,
    CERTIFICATE_DAYS,
    CERTIFICATE_MODE,
    load_ca,
    write_file,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.x509 import Certificate, CertificateRevocationList

REVOKED_FILE: Final = "revoked.pem"
_LIST_BEGINS: Final = b"-----BEGIN X509 CRL-----"
# Brokers refuse clients by a list that is out of date, and nobody fetches a newer one: it is the
# certificates' own length, so that both are thought of at once.
LIST_DAYS: Final = CERTIFICATE_DAYS


def revoke(folder: Path, certificates: Sequence[Path], *, days: int = LIST_DAYS) -> list[str]:
    """Add them to the list in `folder`, which is made if there is none; their names.

    Without certificates the list is only made anew, with a later end. Lists of other CAs, which
    stand in the same file, stay as they are.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding

    ca, ca_key = load_ca(folder)
    path, now = folder / REVOKED_FILE, datetime.now(UTC)
    taken_back = [_signed_by(ca, each) for each in certificates]
    before, others = _load(path, ca_key.public_key())
    listed = {} if before is None else {each.serial_number: each for each in before}
    for each in taken_back:
        revoked = x509.RevokedCertificateBuilder().serial_number(each.serial_number)
        listed.setdefault(each.serial_number, revoked.revocation_date(now).build())
    key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = (
        x509.CertificateRevocationListBuilder(revoked_certificates=list(listed.values()))
        .issuer_name(ca.subject)
        .last_update(now - BACKDATED)
        .next_update(now + timedelta(days=days))
        .add_extension(key_id, critical=False)
        .add_extension(x509.CRLNumber(_number(before) + 1), critical=False)
    )
    lists = [builder.sign(ca_key, SHA256()), *others]
    content = b"".join(each.public_bytes(Encoding.PEM) for each in lists)
    write_file(path, content, CERTIFICATE_MODE, renew=True)
    return [each.subject.rfc4514_string() for each in taken_back]


def _signed_by(ca: "Certificate", path: Path) -> "Certificate":
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise InvalidRequest(f"{path} is no certificate in PEM form") from None
    try:
        found.verify_directly_issued_by(ca)
    except (InvalidSignature, ValueError, TypeError):
        raise InvalidRequest(
            f"{path} was signed by {found.issuer.rfc4514_string()}, and not by the CA here, "
            f"{ca.subject.rfc4514_string()}"
        ) from None
    if found == ca:
        raise InvalidRequest(
            f"{path} is the CA itself, and brokers would refuse all that it signed: for that, take "
            "it out of tls.ca.file"
        )
    return found


def lists_in(content: bytes) -> "list[CertificateRevocationList]":
    """All that a PEM file has, one of each CA; `ValueError` if one cannot be read."""
    from cryptography import x509

    _, *found = content.split(_LIST_BEGINS)
    return [x509.load_pem_x509_crl(_LIST_BEGINS + each) for each in found]


def _load(
    path: Path, key: "EllipticCurvePublicKey"
) -> "tuple[CertificateRevocationList | None, list[CertificateRevocationList]]":
    """The list that was signed by this key, and the others."""
    try:
        found = lists_in(path.read_bytes())
    except FileNotFoundError:
        return None, []
    except ValueError:
        found = []
    if not found:
        raise InvalidRequest(f"{path} is no list of revoked certificates in PEM form")
    own = next((each for each in found if each.is_signature_valid(key)), None)
    return own, [each for each in found if each is not own]


def _number(found: "CertificateRevocationList | None") -> int:
    from cryptography import x509

    if found is None:
        return 0
    try:
        return found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except x509.ExtensionNotFound:
        return 0
