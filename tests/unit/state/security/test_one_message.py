"""PLAIN and OAUTHBEARER: what is read out of their one message."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.security.errors import AuthenticationFailed
from goqueue.state.security.sasl.oauthbearer import BearerToken, read_bearer
from goqueue.state.security.sasl.plain import NameAndPassword, read_plain


def test_plain() -> None:
    assert read_plain(b"\0alice\0secret") == NameAndPassword("alice", "secret")
    assert read_plain("alice\0alice\0pä,=:".encode()) == NameAndPassword("alice", "pä,=:")


@pytest.mark.parametrize(
    "message",
    [b"", b"alice", b"\0alice", b"\0alice\0", b"\0\0secret", b"bob\0alice\0secret", b"\0a\0b\0c"],
)
def test_plain_that_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        read_plain(message)


def test_bearer() -> None:
    assert read_bearer(b"n,,\x01auth=Bearer a.b-_c=\x01\x01") == BearerToken("a.b-_c=", "")
    message = b"n,a=alice,\x01auth=bearer abc\x01traceId=12 3\x01\x01"
    assert read_bearer(message) == BearerToken("abc", "alice")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_bearer_that_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        read_bearer(message)


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(read_plain(b"\0alice\0secret"))
    assert "abc" not in repr(read_bearer(b"n,,\x01auth=Bearer abc\x01\x01"))


@given(st.binary(max_size=200))
def test_whatever_is_sent_is_read_or_refused(message: bytes) -> None:
    for read in (read_plain, read_bearer):
        with contextlib.suppress(AuthenticationFailed):
            read(message)
