"""Files of TLS that change while they are read."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from goqueue.model.broker_config import BrokerConfig
from goqueue.model.measuring.tls import TlsFigures
from goqueue.server.tls.making import make_certificates
from goqueue.server.tls.reloading import Certificates
from goqueue.server.tls.revoking import REVOKED_FILE, revoke

DEADLINE_SECONDS = 60


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not what():
            await asyncio.sleep(0.01)


def test_a_reload_that_failed_is_tried_until_it_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = make_certificates(tmp_path, ["localhost"])
    config = BrokerConfig(
        tls_certificate_file=str(made.broker),
        tls_key_file=str(made.broker_key),
        tls_reload_interval_ms=100,
    )

    async def run() -> None:
        figures = TlsFigures()
        certificates = await Certificates.load(config, figures)
        certificates.start()
        before = certificates.context
        make_certificates(tmp_path, ["localhost"], renew=True)
        made.broker_key.chmod(0o604)
        await until(lambda: figures.reload_failures >= 3)
        assert figures.is_stale
        # No file is written any more: what is looked at is the same as when it failed.
        made.broker_key.chmod(0o600)
        await until(lambda: certificates.context is not before)
        assert not figures.is_stale
        await certificates.stop()

    asyncio.run(run())
    assert len([line for line in caplog.messages if "is not loaded again" in line]) <= 2


def test_a_list_that_cannot_be_read_leaves_the_one_before_in_use(tmp_path: Path) -> None:
    made = make_certificates(tmp_path, ["localhost"], client="alice")
    assert made.client is not None
    revoke(tmp_path, [made.client])
    revoked = tmp_path / REVOKED_FILE
    config = BrokerConfig(
        tls_certificate_file=str(made.broker),
        tls_key_file=str(made.broker_key),
        tls_ca_file=str(made.ca),
        tls_client_auth="required",
        tls_client_crl_file=str(revoked),
        tls_reload_interval_ms=100,
    )

    async def run() -> None:
        figures = TlsFigures()
        certificates = await Certificates.load(config, figures)
        certificates.start()
        content = revoked.read_bytes()
        for damage in (b"", content[:100], b"no list"):
            failures = figures.reload_failures
            revoked.write_bytes(damage)
            await until(lambda failures=failures: figures.reload_failures > failures)  # type: ignore[misc]
        revoked.unlink()
        reloads = figures.reloads
        await until(lambda: figures.is_stale)
        revoked.write_bytes(content)
        await until(lambda: figures.reloads > reloads)
        assert not figures.is_stale
        assert figures.crl_expires_s is not None
        await certificates.stop()

    asyncio.run(run())
