"""SCRAM against an implementation that is not ours, and against RFC 7677's example."""

import base64
import contextlib
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramClient, ScramException

from goqueue.model.security.errors import AuthenticationFailed
from goqueue.model.security.users import ScramRecord
from goqueue.state.security.sasl.scram_server import MESSAGE_MAX_BYTES, Claim, ScramServer
from goqueue.state.security.scram import HASHES, SHA_256, SHA_512, make_record

# RFC 7677, 3.
USER, PASSWORD = "user", "pencil"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def record(mechanism: str, password: str = PASSWORD) -> ScramRecord:
    return make_record(mechanism, password, salt=SALT, iterations=4_096)


def test_the_example_of_the_rfc() -> None:
    server = ScramServer(SHA_256)
    assert server.claim(b"n,,n=user,r=" + CLIENT_NONCE.encode()) == Claim(USER, is_token=False)
    assert server.challenge(record(SHA_256), SERVER_NONCE) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert server.finish(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", list(HASHES))
@pytest.mark.parametrize("name", ["alice", "a,b=c", "ünïcode", "with space"])
def test_a_client_of_others_logs_in(mechanism: str, name: str) -> None:
    client = ScramClient([mechanism], name, PASSWORD)
    server = ScramServer(mechanism)
    assert server.claim(client.get_client_first().encode()) == Claim(name, is_token=False)
    client.set_server_first(server.challenge(record(mechanism), "nonce").decode())
    client.set_server_final(server.finish(client.get_client_final().encode()).decode())


@pytest.mark.parametrize("mechanism", list(HASHES))
def test_a_wrong_password_fails(mechanism: str) -> None:
    client = ScramClient([mechanism], USER, "pencils")
    server = ScramServer(mechanism)
    server.claim(client.get_client_first().encode())
    client.set_server_first(server.challenge(record(mechanism), "nonce").decode())
    with pytest.raises(AuthenticationFailed):
        server.finish(client.get_client_final().encode())


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    client = ScramClient([SHA_512], USER, PASSWORD)
    server = ScramServer(SHA_512)
    server.claim(client.get_client_first().encode())
    client.set_server_first(server.challenge(record(SHA_512), "nonce").decode())
    client.get_client_final()
    with pytest.raises(ScramException):
        client.set_server_final("v=" + base64.b64encode(bytes(64)).decode())


def test_a_token_is_named_by_an_extension() -> None:
    claim = ScramServer(SHA_256).claim(b"n,,n=id,r=abc,tokenauth=true")
    assert claim == Claim("id", is_token=True)
    assert not ScramServer(SHA_256).claim(b"n,,n=id,r=abc,tokenauth=false").is_token
    assert not ScramServer(SHA_256).claim(b"n,,n=id,r=abc,other=true").is_token


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=,r=abc",
        b"n,,n=alice",
        b"n,,n=alice,r=",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,a=bob,n=alice,r=abc",
        b"n,,m=must,n=alice,r=abc",
        b"n,,n=a=lice,r=abc",
        b"n,,n=al\0ice,r=abc",
        b"\xff,,n=alice,r=abc",
        b"n,,n=alice,r=a b",
        b"n,,n=alice,r=" + b"x" * MESSAGE_MAX_BYTES,
    ],
)
def test_a_malformed_beginning_fails(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        ScramServer(SHA_256).claim(message)


def test_an_authorization_id_may_be_the_name() -> None:
    assert ScramServer(SHA_256).claim(b"n,a=alice,n=alice,r=abc").name == "alice"


def final_message(nonce: str, *, binding: str = "biws") -> bytes:
    """With a proof that fits whatever else is in it."""
    known, name = record(SHA_256), "sha256"
    without_proof = f"c={binding},r={nonce}"
    spoken = f"n=user,r=abc,r=abcdef,s={base64.b64encode(SALT).decode()},i=4096,{without_proof}"
    salted = hashlib.pbkdf2_hmac(name, PASSWORD.encode(), SALT, 4_096)
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(known.stored_key, spoken.encode(), name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def challenged() -> ScramServer:
    server = ScramServer(SHA_256)
    server.claim(b"n,,n=user,r=abc")
    server.challenge(record(SHA_256), "def")
    return server


def test_a_proof_counts_for_its_own_conversation_only() -> None:
    assert challenged().finish(final_message("abcdef")).startswith(b"v=")
    with pytest.raises(AuthenticationFailed, match="another log-in"):
        challenged().finish(final_message("abcdeg"))
    with pytest.raises(AuthenticationFailed, match="another log-in"):
        challenged().finish(final_message("abcdef", binding="eSws"))


def test_messages_out_of_turn_fail() -> None:
    done = challenged()
    done.finish(final_message("abcdef"))
    for call in (
        lambda: done.finish(final_message("abcdef")),
        lambda: done.claim(b"n,,n=user,r=abc"),
        lambda: ScramServer(SHA_256).finish(final_message("abcdef")),
        lambda: ScramServer(SHA_256).challenge(record(SHA_256), "def"),
    ):
        with pytest.raises(AuthenticationFailed, match="out of turn"):
            call()


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_whatever_is_sent_fails_by_its_name(message: bytes) -> None:
    server = challenged()
    with pytest.raises(AuthenticationFailed):
        server.finish(message)
    with contextlib.suppress(AuthenticationFailed):
        ScramServer(SHA_256).claim(b"n,,n=" + message)
