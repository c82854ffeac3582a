"""Certificates of clients that are revoked while the broker runs."""

import re
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from goqueue.server.tls.making import MadeCertificates, make_client_certificate
from goqueue.server.tls.revoking import REVOKED_FILE, revoke
from goqueue.testing import ServerProcess
from tests.interop.test_tls_reloading import DEADLINE_SECONDS, answers, refusal, until
from tests.interop.tls_files import made, options, tls_server

Certified = tuple[Path, Path]


@pytest.fixture
def files(tmp_path: Path) -> MadeCertificates:
    return made(tmp_path / "certificates")


@pytest.fixture
def folder(files: MadeCertificates) -> Path:
    revoke(files.ca.parent, [])
    return files.ca.parent


@pytest.fixture
def server(tmp_path: Path, files: MadeCertificates, folder: Path) -> Iterator[ServerProcess]:
    with tls_server(
        tmp_path / "data",
        files,
        client_auth="required",
        client_crl_file=str(folder / REVOKED_FILE),
    ) as running:
        yield running


def context_of(files: MadeCertificates, client: Certified) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(files.ca))
    context.load_cert_chain(*map(str, client))
    return context


def opened(server: ServerProcess, context: ssl.SSLContext) -> ssl.SSLSocket:
    host, port = server.bootstrap_servers.rsplit(":", 1)
    plain = socket.create_connection((host, int(port)), DEADLINE_SECONDS)
    return context.wrap_socket(plain, server_hostname=host)


def is_let_in(server: ServerProcess, context: ssl.SSLContext) -> bool:
    try:
        with opened(server, context) as connection:
            return answers(connection)
    except (ssl.SSLError, ConnectionError):
        return False


def test_a_revoked_certificate_ends_its_connections_and_opens_no_others(
    server: ServerProcess, files: MadeCertificates, folder: Path
) -> None:
    alices, bobs = (
        make_client_certificate(folder, "alice"),
        make_client_certificate(folder, "bob"),
    )
    alice, bob = context_of(files, alices), context_of(files, bobs)
    with (
        opened(server, alice) as of_alice,
        opened(server, bob) as of_bob,
        httpx.Client(verify=alice) as web,
    ):
        assert answers(of_alice)
        assert answers(of_bob)
        assert web.get(server.http_url + "/readyz").status_code == 200
        revoke(folder, [alices[0]])
        # Nothing is sent: the broker hangs up by itself.
        assert of_alice.recv(1) == b""
        assert answers(of_bob)
        with pytest.raises(httpx.TransportError):
            web.get(server.http_url + "/readyz")
    assert not is_let_in(server, alice)
    assert is_let_in(server, bob)
    assert "closed: its certificate was revoked" in server.log_text
    until(lambda: "its certificate is refused: certificate revoked" in server.log_text)


def test_a_ca_that_is_taken_away_ends_the_connections_of_its_clients(
    server: ServerProcess, files: MadeCertificates, folder: Path, tmp_path: Path
) -> None:
    client = make_client_certificate(folder, "alice")
    others = made(tmp_path / "others")
    with opened(server, context_of(files, client)) as connection:
        assert answers(connection)
        fresh = files.ca.with_name("fresh.pem")
        fresh.write_bytes(others.ca.read_bytes())
        kept = files.ca.with_name("kept.pem")
        files.ca.rename(kept)
        fresh.rename(files.ca)
        assert connection.recv(1) == b""
    assert "closed: the CA of its certificate is no longer trusted" in server.log_text


def test_a_list_that_is_out_of_date_lets_nobody_in_and_open_connections_stay(
    server: ServerProcess, files: MadeCertificates, folder: Path
) -> None:
    context = context_of(files, make_client_certificate(folder, "alice"))
    with opened(server, context) as connection:
        assert answers(connection)
        revoke(folder, [], days=0)
        until(lambda: "is out of date" in server.log_text)
        # At the end of the second in which the list ends.
        until(lambda: not is_let_in(server, context))
        assert answers(connection)
    until(lambda: "its certificate is refused: CRL has expired" in server.log_text)
    revoke(folder, [])
    until(lambda: is_let_in(server, context))


def test_the_end_of_the_list_is_a_metric(
    server: ServerProcess, files: MadeCertificates, folder: Path
) -> None:
    context = context_of(files, make_client_certificate(folder, "alice"))
    text = httpx.get(server.http_url + "/metrics", verify=context).text
    found = re.search(r"^goqueue_tls_crl_expiry_timestamp_seconds (\S+)$", text, re.M)
    assert found is not None
    assert 396 < (float(found[1]) - time.time()) / 86_400 < 398


def test_starts_that_cannot_be(tmp_path: Path, files: MadeCertificates) -> None:
    missing = str(tmp_path / "missing.pem")
    assert f"tls.client.crl.file: {missing} cannot be read" in refusal(
        tmp_path, *options(files, client_auth="required", client_crl_file=missing)
    )
    assert "tls.client.crl.file: is set, but tls.client.auth is none" in refusal(
        tmp_path, *options(files, client_crl_file=missing)
    )
    assert "has no list of revoked certificates" in refusal(
        tmp_path, *options(files, client_auth="required", client_crl_file=str(files.ca))
    )
    assert "tls.client.crl.file: is set, but tls.certificate.file is not" in refusal(
        tmp_path, "--set", f"tls.client.crl.file={missing}"
    )
