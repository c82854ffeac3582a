"""Certificates that are taken back."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from goqueue.model.errors import InvalidRequest
from goqueue.server.tls.making import make_certificates, make_client_certificate
from goqueue.server.tls.revoking import REVOKED_FILE, lists_in, revoke


def listed(folder: Path) -> x509.CertificateRevocationList:
    return x509.load_pem_x509_crl((folder / REVOKED_FILE).read_bytes())


def test_a_list_grows_and_is_renewed(tmp_path: Path) -> None:
    made = make_certificates(tmp_path, ["localhost"], client="alice")
    ca = x509.load_pem_x509_certificate(made.ca.read_bytes())
    assert made.client is not None
    assert revoke(tmp_path, []) == []
    assert len(listed(tmp_path)) == 0
    assert revoke(tmp_path, [made.client]) == ["CN=alice"]
    bobs, _ = make_client_certificate(tmp_path, "bob")
    assert revoke(tmp_path, [bobs, made.client], days=10) == ["CN=bob", "CN=alice"]
    found = listed(tmp_path)
    assert {each.serial_number for each in found} == {
        x509.load_pem_x509_certificate(path.read_bytes()).serial_number
        for path in (made.client, bobs)
    }
    public_key = ca.public_key()
    assert found.is_signature_valid(public_key)  # type: ignore[arg-type]
    assert found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number == 3
    assert found.next_update_utc is not None
    assert (found.next_update_utc - datetime.now(UTC)).days in (9, 10)


def test_what_is_not_of_this_ca_is_refused(tmp_path: Path) -> None:
    make_certificates(tmp_path / "here", ["localhost"])
    others = make_certificates(tmp_path / "there", ["localhost"], client="alice")
    assert others.client is not None
    with pytest.raises(InvalidRequest, match="not by the CA here"):
        revoke(tmp_path / "here", [others.client])
    with pytest.raises(InvalidRequest, match="is no certificate"):
        revoke(tmp_path / "here", [others.ca_key])
    with pytest.raises(InvalidRequest, match="cannot be read"):
        revoke(tmp_path / "here", [tmp_path / "missing.pem"])
    assert not (tmp_path / "here" / REVOKED_FILE).exists()


def test_lists_of_other_cas_in_the_file_stay(tmp_path: Path) -> None:
    serials: dict[str, int] = {}
    for place in ("here", "there"):
        made = make_certificates(tmp_path / place, ["localhost"], client=place)
        assert made.client is not None
        revoke(tmp_path / place, [made.client])
        certificate = x509.load_pem_x509_certificate(made.client.read_bytes())
        serials[place] = certificate.serial_number
    both = tmp_path / "here" / REVOKED_FILE
    both.write_bytes((tmp_path / "there" / REVOKED_FILE).read_bytes() + both.read_bytes())
    bobs, _ = make_client_certificate(tmp_path / "here", "bob")
    bob = x509.load_pem_x509_certificate(bobs.read_bytes()).serial_number
    revoke(tmp_path / "here", [bobs])
    here, there = lists_in(both.read_bytes())
    assert {each.serial_number for each in here} == {serials["here"], bob}
    assert {each.serial_number for each in there} == {serials["there"]}


def test_the_ca_itself_is_not_revoked(tmp_path: Path) -> None:
    made = make_certificates(tmp_path, ["localhost"])
    with pytest.raises(InvalidRequest, match="is the CA itself"):
        revoke(tmp_path, [made.ca])
    assert not (tmp_path / REVOKED_FILE).exists()
