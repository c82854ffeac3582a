"""No connection fails because a certificate is replaced (100 of them in `make soak-tls`)."""

from pathlib import Path

from tests.crash.certificate_rounds import replace_under_load


def test_certificates_are_replaced_under_load(tmp_path: Path) -> None:
    rounds = replace_under_load(tmp_path, 5)
    assert rounds.failures == []
    assert len(rounds.serials) >= 6
    assert min(rounds.done[what] for what in ("connections", "HTTP requests", "messages")) > 0
