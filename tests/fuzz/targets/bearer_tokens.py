"""Tokens of an identity provider: as anybody may send them, and as the provider may sign them.

The first line is `SENT`, and the rest a token; or it is `SIGNED`, and the rest are the header and
the claims of one, a line each, to which the provider's signature is added.
"""

import asyncio
import base64
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from goqueue.broker.security.oauth.bearer_tokens import END_MAX_S, BearerTokens
from goqueue.broker.security.oauth.key_set import KeySet
from goqueue.model.broker_config import broker_config
from goqueue.model.security.errors import AuthenticationFailed
from tests.fuzz.target import Finding, Target, Verdict
from tests.jwt_issuer import AUDIENCE, ISSUER, key_set, public

KEY_ID: Final = "one"
# The same in every process, so that what it signed once is its own later.
KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(32))
_KEYS: Final = KeySet(lambda: key_set(public(KEY, KEY_ID)).encode(), "keys", refresh_s=1e9)
_TOKENS: Final = BearerTokens(
    broker_config({"oauth.issuer": ISSUER, "oauth.audience": AUDIENCE}), _KEYS
)
_RUNNER: Final = asyncio.Runner()


class _AtOnce(ThreadPoolExecutor):
    """Without threads, into which nobody sees who looks for ways through the code."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


_RUNNER.get_loop().set_default_executor(_AtOnce())


def run(data: bytes) -> Verdict:
    kind, _, rest = data.partition(b"\n")
    token = _signed(*rest.partition(b"\n")[::2]) if kind == b"SIGNED" else rest.decode("latin-1")
    try:
        found = _RUNNER.run(_TOKENS.verify(token))
    except AuthenticationFailed as error:
        if len(token) > 20 and token in error.message:
            raise Finding("a token is shown") from None
        return error.message
    if not 0 <= found.expires_ms <= END_MAX_S * 1_000:
        raise Finding(f"{found} has no end that can be told")
    found.name.encode()
    return found


def _signed(header: bytes, claims: bytes) -> str:
    spoken = b".".join(map(_written, (header, claims)))
    return b".".join((spoken, _written(KEY.sign(spoken)))).decode()


def _written(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")


TARGET: Final = Target(
    name="bearer_tokens",
    promise="a token is taken, with a name and an end, or refused without being shown",
    run=run,
    close=_RUNNER.close,
)
