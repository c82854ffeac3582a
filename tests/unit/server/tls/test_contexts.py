"""What TLS at the doors is made of, and what it stands on."""

import inspect
import re
from pathlib import Path

import pytest

from goqueue.doors.tls import records
from goqueue.model.broker_config import BrokerConfig
from goqueue.server.addresses import StartFailed
from goqueue.server.tls.contexts import load_tls
from goqueue.server.tls.making import make_certificates


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
