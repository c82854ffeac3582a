"""What TLS at the doors is made of, and what it stands on."""

import inspect
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from goqueue.doors.tls import records
from goqueue.model.broker_config import BrokerConfig
from goqueue.server.addresses import StartFailed
from goqueue.server.tls.contexts import load_tls
from goqueue.server.tls.making import load_ca, make_certificates


def test_all_that_is_called_beneath_pyopenssl_is_asked_for_at_the_start() -> None:
    called = set(re.findall(r"\blib\.(\w+)", inspect.getsource(records)))
    assert called == set(records.BINDINGS)


def test_libraries_that_lack_something_are_found_out_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_certificates(tmp_path, ["localhost"])
    config = BrokerConfig(tls_certificate_file=str(made.broker), tls_key_file=str(made.broker_key))
    assert load_tls(config).expires_s > 0
    monkeypatch.setattr(records, "BINDINGS", ("SSL_read", "SSL_gone"))
    monkeypatch.setattr(records, "_OF_CONNECTION", ("_ssl", "_gone"))
    with pytest.raises(StartFailed, match=r"needs SSL_gone, Connection\._gone; install"):
        load_tls(config)


def test_a_list_of_100_000_revoked_certificates_is_taken(tmp_path: Path) -> None:
    made = make_certificates(tmp_path, ["localhost"])
    ca, ca_key = load_ca(tmp_path)
    now, number = datetime.now(UTC), 1 << 158
    revoked = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now).build()
    builder = x509.CertificateRevocationListBuilder(revoked_certificates=[revoked] * 100_000)
    builder = builder.issuer_name(ca.subject).last_update(now).next_update(now + timedelta(days=1))
    path = tmp_path / "revoked.pem"
    path.write_bytes(builder.sign(ca_key, SHA256()).public_bytes(Encoding.PEM))
    loaded = load_tls(
        BrokerConfig(
            tls_certificate_file=str(made.broker),
            tls_key_file=str(made.broker_key),
            tls_ca_file=str(made.ca),
            tls_client_crl_file=str(path),
        )
    )
    assert loaded.trust.revoked == {ca.subject.public_bytes(): {number}}
