"""Tokens of an identity provider: which are taken, which are not, and where its keys come from."""

import asyncio
import base64
import contextlib
import http.client
import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from goqueue.broker.security.oauth import key_set as key_sets
from goqueue.broker.security.oauth.bearer_tokens import (
    END_MAX_S,
    TOKEN_MAX_BYTES,
    BearerTokens,
    open_bearer_tokens,
)
from goqueue.broker.security.oauth.key_set import KeySet, open_key_set
from goqueue.model.broker_config import broker_config
from goqueue.model.errors import InvalidConfig
from goqueue.model.security.errors import AuthenticationFailed
from tests.jwt_issuer import AUDIENCE, ISSUER, ec_key, ed_key, key_set, public, rsa_key, token

pytestmark = pytest.mark.anyio

RSA, OTHER_RSA, EC, ED = rsa_key(), rsa_key(), ec_key(), ed_key()
SETTINGS = {"oauth.issuer": ISSUER, "oauth.audience": f"other,{AUDIENCE}"}


def opened(path: Path, **settings: str) -> BearerTokens:
    texts = {"oauth.jwks.file": str(path), **SETTINGS}
    texts |= {name.replace("_", "."): text for name, text in settings.items()}
    found = open_bearer_tokens(broker_config(texts))
    assert found is not None
    return found


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(key_set(public(RSA, "one"), public(EC, "two"), public(ED, "three")))
    return path


@pytest.mark.parametrize(
    ("key", "key_id", "algorithm"),
    [
        (RSA, "one", "RS256"),
        (RSA, "one", "RS512"),
        (RSA, "one", "PS256"),
        (EC, "two", "ES256"),
        (ED, "three", "EdDSA"),
        (RSA, None, "RS256"),
    ],
)
async def test_a_token_of_the_provider(
    keys: Path, key: object, key_id: str | None, algorithm: str
) -> None:
    ends = int(time.time()) + 100
    bearer = await opened(keys).verify(token(key, key_id, algorithm, exp=ends))
    assert bearer == ("alice", ends * 1000)


@pytest.mark.parametrize("ends", [10**30, 1e300, "9" * 30])
async def test_a_token_without_a_real_end_has_one(keys: Path, ends: object) -> None:
    assert (await opened(keys).verify(token(RSA, exp=ends))).expires_ms == END_MAX_S * 1000


async def test_the_name_may_be_in_another_claim(keys: Path) -> None:
    tokens = opened(keys, oauth_principal_claim="email")
    assert (await tokens.verify(token(RSA, email="a@example"))).name == "a@example"


def shared_secret() -> str:
    """Signed with the provider's public key as if it were a secret."""
    public_pem = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    parts = token(RSA).split(".")
    header = json.dumps({"alg": "HS256", "kid": "one", "typ": "JWT"}).encode()
    parts[0] = base64.urlsafe_b64encode(header).rstrip(b"=").decode()
    algorithm = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    signature = algorithm.sign(".".join(parts[:2]).encode(), public_pem)
    return ".".join([*parts[:2], base64.urlsafe_b64encode(signature).rstrip(b"=").decode()])


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(lambda: token(OTHER_RSA), id="another key"),
        pytest.param(lambda: token(RSA, "four"), id="unknown key"),
        pytest.param(lambda: token(RSA, "two"), id="key of another kind"),
        pytest.param(lambda: token(RSA, exp=int(time.time()) - 60), id="expired"),
        pytest.param(lambda: token(RSA, exp=None), id="without an end"),
        pytest.param(lambda: token(RSA, iss="https://other.example"), id="another issuer"),
        pytest.param(lambda: token(RSA, iss=None), id="no issuer"),
        pytest.param(lambda: token(RSA, aud="others"), id="for others"),
        pytest.param(lambda: token(RSA, aud=None), id="for nobody"),
        pytest.param(lambda: token(RSA, nbf=int(time.time()) + 60), id="not yet"),
        pytest.param(lambda: token(RSA, sub=None), id="of nobody"),
        pytest.param(lambda: token(RSA, sub="__brokers__"), id="of brokers"),
        pytest.param(lambda: token(RSA, sub="a:b"), id="of a bad name"),
        pytest.param(lambda: token(None, "one", "none"), id="not signed"),
        pytest.param(shared_secret, id="public key as a secret"),
        pytest.param(lambda: "x.y.z", id="no token"),
        pytest.param(lambda: "", id="nothing"),
        pytest.param(lambda: "x" * (TOKEN_MAX_BYTES + 1), id="too long"),
    ],
)
async def test_what_is_refused(keys: Path, sent: object) -> None:
    text = sent()  # type: ignore[operator]
    with pytest.raises(AuthenticationFailed) as refused:
        await opened(keys).verify(text)
    assert not text or text not in str(refused.value)


async def test_a_key_is_for_the_algorithm_that_it_names(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(key_set(public(RSA, "one", alg="RS256"), public(EC, "two", use="enc")))
    assert await opened(path).verify(token(RSA))
    for refused in (token(RSA, "one", "PS256"), token(EC, "two", "ES256")):
        with pytest.raises(AuthenticationFailed):
            await opened(path).verify(refused)


async def test_clocks_may_be_a_little_apart(keys: Path) -> None:
    late = token(RSA, exp=int(time.time()) - 10)
    assert await opened(keys).verify(late)
    with pytest.raises(AuthenticationFailed):
        await opened(keys, oauth_clock_skew_ms="0").verify(late)


class Source:
    """Keys that a test changes."""

    def __init__(self, text: str) -> None:
        self.text: str | None = text
        self.reads = 0

    def __call__(self) -> bytes:
        self.reads += 1
        if self.text is None:
            raise OSError("unreachable")
        return self.text.encode()


async def test_new_keys_are_found_when_a_token_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(key_set(public(RSA, "one")))
    keys = KeySet(source, "test", refresh_s=3_600)
    assert await keys.find("one", "RSA")
    source.text = key_set(public(OTHER_RSA, "two"))
    # Not again so soon.
    assert await keys.find("two", "RSA") is None
    assert source.reads == 1
    monkeypatch.setattr(key_sets, "UNKNOWN_KEY_REFRESH_S", -1.0)
    assert await keys.find("two", "RSA")
    assert await keys.find("one", "RSA") is None


async def test_keys_are_kept_while_they_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(key_set(public(RSA, "one")))
    keys = KeySet(source, "test", refresh_s=3_600)
    assert await keys.find("one", "RSA")
    monkeypatch.setattr(key_sets, "UNKNOWN_KEY_REFRESH_S", -1.0)
    too_large, too_deep = " " * (key_sets.KEY_SET_MAX_BYTES + 1), "[" * 100_000
    for text in (None, "{", "[]", '{"keys": [1]}', too_large, too_deep):
        source.text = text
        assert await keys.find("two", "RSA") is None
        assert await keys.find("one", "RSA")
    assert "cannot be read" in caplog.text


async def test_a_provider_that_speaks_no_http_is_not_asked_again_at_once() -> None:
    reads = 0

    def read() -> bytes:
        nonlocal reads
        reads += 1
        raise http.client.BadStatusLine("garbage")

    keys = KeySet(read, "test", refresh_s=3_600)
    for _ in range(3):
        assert await keys.find("one", "RSA") is None
    assert reads == 1


async def test_a_token_is_known_again_for_as_long_as_it_would_be_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source(key_set(public(RSA, "one")))
    keys = KeySet(source, "test", refresh_s=3_600)
    config = broker_config({**SETTINGS, "oauth.clock.skew.ms": "1000"})
    tokens, shown = BearerTokens(config, keys), token(RSA, "one")
    assert tokens.known(shown) is None
    bearer = await tokens.verify(shown)
    assert tokens.known(shown) == bearer
    assert tokens.known(shown[:-1]) is None

    # Its key is gone, which is found out by who needs none.
    monkeypatch.setattr(keys, "_refresh_s", -1.0)
    assert tokens.known(shown) == bearer
    await keys._refresh()
    assert tokens.known(shown) == bearer
    source.text = key_set(public(OTHER_RSA, "two"))
    await keys._refresh()
    assert tokens.known(shown) is None

    source.text = key_set(public(RSA, "one"))
    await keys._refresh()
    await tokens.verify(shown)
    assert tokens.known(shown) == bearer
    monkeypatch.setattr(time, "time", lambda: bearer.expires_ms / 1000 + 1)
    assert tokens.known(shown) is None


async def test_many_who_wait_read_once() -> None:
    source = Source(key_set(public(RSA, "one")))
    keys = KeySet(source, "test", refresh_s=3_600)
    found = await asyncio.gather(*(keys.find("one", "RSA") for _ in range(20)))
    assert all(found)
    assert source.reads == 1


@pytest.fixture
def web_server(tmp_path: Path) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "/keys")
                self.end_headers()
                return
            body = key_set(public(RSA, "one")).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.path == "/dripping":
                with contextlib.suppress(OSError):
                    for byte in body:
                        self.wfile.write(bytes((byte,)))
                        time.sleep(0.05)
                return
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_keys_of_a_url(web_server: str) -> None:
    keys = open_key_set(file="", url=f"{web_server}/keys", refresh_ms=1_000)
    assert await keys.find("one", "RSA")
    moved = open_key_set(file="", url=f"{web_server}/moved", refresh_ms=1_000)
    assert await moved.find("one", "RSA") is None


async def test_keys_that_come_byte_by_byte_are_not_waited_for(
    web_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could log in by a token meanwhile, and no others would ever be asked for."""
    monkeypatch.setattr(key_sets, "FETCH_TIMEOUT_S", 0.3)
    keys = open_key_set(file="", url=f"{web_server}/dripping", refresh_ms=1_000)
    async with asyncio.timeout(10):
        assert await keys.find("one", "RSA") is None


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"oauth.jwks.file": "a"}, "oauth.issuer"),
        ({"oauth.jwks.file": "a", "oauth.issuer": "b"}, "oauth.audience"),
        ({"oauth.jwks.file": "a", "oauth.jwks.url": "https://b", **SETTINGS}, "only one"),
        ({"oauth.jwks.url": "http://issuer.example", **SETTINGS}, "https://"),
        ({"oauth.jwks.url": "file:///etc/passwd", **SETTINGS}, "https://"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidConfig, match=named):
        open_bearer_tokens(broker_config(settings))


def test_without_a_provider_there_is_none() -> None:
    assert open_bearer_tokens(broker_config({})) is None
