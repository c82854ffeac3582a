"""Certificates that are made."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from goqueue.model.errors import InvalidRequest
from goqueue.server.tls.making import make_certificates
from goqueue.server.tls.reloading import distinguished_name


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_a_ca_a_broker_and_a_client(tmp_path: Path) -> None:
    made = make_certificates(
        tmp_path / "new" / "folder", ["broker-1.example", "127.0.0.1", "::1"], client="alice"
    )
    ca, broker = read(made.ca), read(made.broker)
    broker.verify_directly_issued_by(ca)
    names = broker.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["broker-1.example"]
    assert list(map(str, names.get_values_for_type(x509.IPAddress))) == ["127.0.0.1", "::1"]
    assert 396 <= (broker.not_valid_after_utc - datetime.now(UTC)).days <= 397
    for key in (made.ca_key, made.broker_key, made.client_key):
        assert key is not None
        assert key.stat().st_mode & 0o777 == 0o600
    assert made.client is not None
    client = read(made.client)
    client.verify_directly_issued_by(ca)
    assert distinguished_name(client) == "CN=alice"
    context = ssl.create_default_context(cafile=str(made.ca))
    context.load_cert_chain(str(made.client), str(made.client_key))


def test_what_is_there_is_kept_unless_it_is_renewed(tmp_path: Path) -> None:
    first = make_certificates(tmp_path, ["localhost"])
    ca, broker = read(first.ca), read(first.broker)
    with pytest.raises(FileExistsError):
        make_certificates(tmp_path, ["localhost"])
    assert read(first.broker) == broker
    make_certificates(tmp_path, ["localhost"], renew=True)
    assert read(first.ca) == ca
    assert read(first.broker) != broker
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "broker.key",
        "broker.pem",
        "ca.key",
        "ca.pem",
    ]


@pytest.mark.parametrize("client", ["../x", "ca", "broker", "master", "revoked", "", ".hidden"])
def test_names_of_clients_that_are_no_names_of_files(tmp_path: Path, client: str) -> None:
    with pytest.raises(InvalidRequest, match="client"):
        make_certificates(tmp_path, ["localhost"], client=client)
