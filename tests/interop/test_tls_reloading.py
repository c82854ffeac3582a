"""Certificates that are replaced while the broker runs."""

import re
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from goqueue.server.tls.making import MadeCertificates
from goqueue.testing import ServerProcess
from goqueue.testing.server_process import ServerNotReady
from tests.interop.test_prometheus import DOCUMENT, OF_TLS
from tests.interop.tls_files import made, options, tls_server

DEADLINE_SECONDS = 60


@pytest.fixture
def files(tmp_path: Path) -> MadeCertificates:
    return made(tmp_path / "certificates", client="alice")


@pytest.fixture
def server(tmp_path: Path, files: MadeCertificates) -> Iterator[ServerProcess]:
    with tls_server(tmp_path / "data", files, client_auth="requested") as running:
        yield running


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def connected(server: ServerProcess, files: MadeCertificates) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(files.ca))
    host, port = server.bootstrap_servers.rsplit(":", 1)
    plain = socket.create_connection((host, int(port)), DEADLINE_SECONDS)
    return context.wrap_socket(plain, server_hostname=host)


def serial_number(server: ServerProcess, files: MadeCertificates) -> str:
    with connected(server, files) as connection:
        shown = connection.getpeercert()
        assert shown is not None
        return str(shown["serialNumber"])


def answers(connection: ssl.SSLSocket) -> bool:
    # ApiVersions, version 0.
    connection.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
    return len(connection.recv(1_000)) > 4


def figures(server: ServerProcess, files: MadeCertificates) -> dict[str, float]:
    context = ssl.create_default_context(cafile=str(files.ca))
    text = httpx.get(server.http_url + "/metrics", verify=context).text
    return {
        name: float(value) for name, value in re.findall(r"^(goqueue_tls_\w+) (\S+)$", text, re.M)
    }


def test_a_new_certificate_is_used_and_open_connections_stay(
    server: ServerProcess, files: MadeCertificates
) -> None:
    before = serial_number(server, files)
    with connected(server, files) as open_before:
        made(files.ca.parent, renew=True)
        until(lambda: serial_number(server, files) != before)
        assert answers(open_before)
    found = figures(server, files)
    assert found.keys() == OF_TLS - {"goqueue_tls_crl_expiry_timestamp_seconds"}
    assert found["goqueue_tls_certificate_reloads_total"] >= 1
    days = (found["goqueue_tls_certificate_expiry_timestamp_seconds"] - time.time()) / 86_400
    assert 396 < days < 398
    for name in OF_TLS:
        assert f"| `{name}` |" in DOCUMENT.read_text()


def test_hang_up_loads_at_once(tmp_path: Path, files: MadeCertificates) -> None:
    with tls_server(tmp_path / "data", files, reload_interval_ms="3600000") as server:
        before = serial_number(server, files)
        made(files.ca.parent, renew=True)
        server.send_signal(signal.SIGHUP)
        until(lambda: serial_number(server, files) != before)
        assert server.is_running


def test_hang_up_reaches_every_worker(tmp_path: Path, files: MadeCertificates) -> None:
    settings = options(files, reload_interval_ms="3600000")
    with ServerProcess(tmp_path / "data", *settings, workers=2) as server:
        made(files.ca.parent, renew=True)
        server.send_signal(signal.SIGHUP)
        until(lambda: server.log_text.count("the certificate was loaded again") == 2)


def test_a_file_that_cannot_be_used_leaves_the_certificate_as_it_is(
    server: ServerProcess, files: MadeCertificates
) -> None:
    before = serial_number(server, files)
    files.broker_key.write_text("no key")
    until(lambda: "the certificate is not loaded again" in server.log_text)
    assert serial_number(server, files) == before
    assert figures(server, files)["goqueue_tls_certificate_reload_failures_total"] >= 1
    made(files.ca.parent, renew=True)
    until(lambda: serial_number(server, files) != before)


def test_another_ca_of_clients_is_loaded_as_well(
    server: ServerProcess, files: MadeCertificates, tmp_path: Path
) -> None:
    others = made(tmp_path / "others", client="bob")
    assert others.client is not None
    context = ssl.create_default_context(cafile=str(files.ca))
    context.load_cert_chain(str(others.client), str(others.client_key))

    def is_let_in() -> bool:
        try:
            return httpx.get(server.http_url + "/readyz", verify=context).status_code == 200
        except httpx.TransportError:
            return False

    assert not is_let_in()
    both = files.ca.read_text() + others.ca.read_text()
    fresh = files.ca.with_name("both.pem")
    fresh.write_text(both)
    fresh.rename(files.ca)
    until(is_let_in)


def refusal(tmp_path: Path, *settings: str) -> str:
    with pytest.raises(ServerNotReady) as failed, ServerProcess(tmp_path / "data", *settings):
        pass
    return str(failed.value)


def test_starts_that_cannot_be(tmp_path: Path, files: MadeCertificates) -> None:
    others = made(tmp_path / "others")
    assert "tls.key.file: is not set" in refusal(tmp_path, *options(files, key_file=""))
    assert "is not the key of the certificate" in refusal(
        tmp_path, *options(files, key_file=str(others.broker_key))
    )
    assert "tls.ca.file: is not set" in refusal(
        tmp_path, *options(files, ca_file="", client_auth="required")
    )
    assert "tls.optional: is set, but tls.client.auth requires" in refusal(
        tmp_path, *options(files, optional="true", client_auth="required")
    )
    missing = str(tmp_path / "missing.pem")
    assert f"tls.certificate.file: {missing} cannot be read: No such file" in refusal(
        tmp_path, *options(files, certificate_file=missing)
    )
    files.broker_key.chmod(0o604)
    told = refusal(tmp_path, *options(files))
    assert f"run: chmod 600 {files.broker_key}" in told
    assert "tls.client.auth: is set, but tls.certificate.file is not" in refusal(
        tmp_path, "--set", "tls.client.auth=required"
    )
    assert "does not begin with a rule" in refusal(
        tmp_path, *options(others, principal_mapping_rules="RULE:x")
    )
