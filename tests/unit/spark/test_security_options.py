"""Who a reader or writer is: by options, by a profile, by what is in use."""

from pathlib import Path

import pytest

from goqueue.client.profiles import Profile, ProfilesFile
from goqueue.model.client_security import NO_SECURITY, ClientSecurity
from goqueue.spark.option_names import InvalidOption
from goqueue.spark.sink.options import parse_options
from goqueue.spark.source.options import parse_source_options

SERVERS = "broker:9092"


@pytest.fixture(autouse=True)
def own_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProfilesFile:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("GOQUEUE_PROFILE", "GOQUEUE_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    return ProfilesFile()


@pytest.fixture
def ca_file(tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    path.touch()
    return str(path)


def security_of(**options: str) -> ClientSecurity:
    given = {"bootstrap.servers": SERVERS, "topic": "t"}
    given |= {name.replace("_", "."): value for name, value in options.items()}
    read = parse_source_options(given, streaming=False).security
    written = parse_options(given, is_stream=False).security
    assert read == written
    return read


def test_without_any_nobody_logs_in() -> None:
    assert security_of() == NO_SECURITY


def test_one_by_one_in_every_spelling(ca_file: str) -> None:
    wanted = ClientSecurity(
        tls=True,
        ca_file=ca_file,
        mechanism="SCRAM-SHA-512",
        username="alice",
        password="secret",
    )
    assert wanted == security_of(
        username="alice", password="secret", ca_file=ca_file, sasl_mechanism="scram-sha-512"
    )
    assert wanted == security_of(
        goqueue_username="alice",
        goqueue_password="secret",
        goqueue_ca_file=ca_file,
        goqueue_mechanism="SCRAM-SHA-512",
    )
    assert wanted == security_of(
        kafka_sasl_username="alice",
        kafka_sasl_password="secret",
        kafka_ssl_ca_location=ca_file,
        kafka_sasl_mechanism="SCRAM-SHA-512",
        kafka_security_protocol="SASL_SSL",
    )


def test_a_profile_and_what_is_said_beside_it(own_profiles: ProfilesFile, tmp_path: Path) -> None:
    own_profiles.put("prod", Profile(tls=True, username="alice", password="secret"))
    named = security_of(profile="prod")
    assert (named.username, named.password, named.tls) == ("alice", "secret", True)
    secret = tmp_path / "secret"
    secret.write_text("of the file\n")
    beside = security_of(profile="prod", username="bob", password_file=str(secret))
    assert (beside.username, beside.password, beside.tls) == ("bob", "of the file", True)


def test_what_is_in_use_counts_for_its_own_broker(
    own_profiles: ProfilesFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_profiles.put("here", Profile(bootstrap=SERVERS, username="alice", password="a"))
    own_profiles.put("there", Profile(bootstrap="other:9092", username="bob", password="b"))
    own_profiles.use("there")
    assert security_of() == NO_SECURITY
    own_profiles.use("here")
    assert security_of().username == "alice"
    monkeypatch.setenv("GOQUEUE_PROFILE", "there")
    assert security_of().username == "bob"


def test_a_protocol_that_says_something_else(ca_file: str) -> None:
    with pytest.raises(InvalidOption, match="SASL_PLAINTEXT goes with no certificates"):
        security_of(security_protocol="SASL_PLAINTEXT", username="a", password="b", ca_file=ca_file)
    with pytest.raises(InvalidOption, match="SSL goes with no username"):
        security_of(security_protocol="SSL", username="a", password="b")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("kafka.sasl.mechanism", "MD5", "mechanism: 'MD5' is none of"),
        ("kafka.security.protocol", "SASL_SSL", "security.protocol: SASL_SSL needs a username"),
        ("kafka.security.protocol", "QUIC", "security.protocol: 'quic' is not one of"),
    ],
)
def test_what_is_refused(name: str, value: str, reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        security_of(**{name: value})


def test_no_error_shows_a_password() -> None:
    with pytest.raises(InvalidOption) as refused:
        security_of(password="hunter2")
    assert "hunter2" not in str(refused.value)
    options = parse_source_options(
        {"bootstrap.servers": SERVERS, "topic": "t", "username": "a", "password": "hunter2"},
        streaming=False,
    )
    assert "hunter2" not in repr(options)
