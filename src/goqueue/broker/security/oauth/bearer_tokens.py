"""Whether a token is the identity provider's, meant for this broker, and of whom it speaks."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from goqueue.broker.security.oauth.key_set import JsonKey, KeySet, check_url, open_key_set
from goqueue.model.errors import InvalidConfig, InvalidRequest
from goqueue.model.security.config import SecuritySettings
from goqueue.model.security.errors import AuthenticationFailed
from goqueue.model.security.users import check_user_name

TOKEN_MAX_BYTES: Final = 32_768
# The year 9999. What is longer has no place in the answer.
END_MAX_S: Final = 253_402_300_799
# Those that are known again: some 300 bytes each.
KNOWN_MAX: Final = 10_000
# In threads, which others need as well.
AT_ONCE_MAX: Final = 2
# By the kind of key that each needs. Those with a shared secret (HS…) are never taken, for then the
# public key would be the secret; nor is `none`.
ALGORITHMS: Final[Mapping[str, str]] = {
    "RS256": "RSA",
    "RS384": "RSA",
    "RS512": "RSA",
    "PS256": "RSA",
    "PS384": "RSA",
    "PS512": "RSA",
    "ES256": "EC",
    "ES384": "EC",
    "ES512": "EC",
    "EdDSA": "OKP",
}
# What a curve of ES… is called in a key (RFC 7518, 3.4).
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


class Bearer(NamedTuple):
    name: str
    expires_ms: int


class BearerTokens:
    def __init__(self, config: SecuritySettings, keys: KeySet) -> None:
        self._keys = keys
        self._issuer = config.oauth_issuer
        self._audience = config.oauth_audience
        self._claim = config.oauth_principal_claim
        self._leeway_s = config.oauth_clock_skew_ms / 1000
        # By their hashes, with the generation of keys that they were verified by.
        self._known: OrderedDict[bytes, tuple[Bearer, int]] = OrderedDict()
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)

    def known(self, token: str) -> Bearer | None:
        """One that was verified, and would be again: who sends it with every request waits for
        nobody who sends others."""
        digest = hashlib.sha256(token.encode()).digest()
        bearer, generation = self._known.get(digest, (None, 0))
        if bearer is None:
            return None
        self._keys.keep_fresh()
        is_over = bearer.expires_ms / 1000 + self._leeway_s <= time.time()
        if is_over or generation != self._keys.generation:
            del self._known[digest]
            return None
        self._known.move_to_end(digest)
        return bearer

    async def verify(self, token: str) -> Bearer:
        """Raises `AuthenticationFailed`, which says why; the token's sender is not told."""
        if len(token) > TOKEN_MAX_BYTES:
            raise AuthenticationFailed(f"the token has more than {TOKEN_MAX_BYTES} bytes")
        async with self._turns:
            header = await asyncio.to_thread(_header, token)
        algorithm = header.get("alg")
        kind = ALGORITHMS.get(algorithm) if isinstance(algorithm, str) else None
        if not isinstance(algorithm, str) or kind is None:
            raise AuthenticationFailed("the token's algorithm is not one that is taken")
        key_id = header.get("kid")
        key = await self._keys.find(key_id if isinstance(key_id, str) else None, kind)
        if key is None or not _fits(key, algorithm):
            raise AuthenticationFailed("the token's key is not one of the identity provider")
        generation = self._keys.generation
        async with self._turns:
            claims = await asyncio.to_thread(self._claims, token, key, algorithm)
        bearer = self._bearer(claims)
        self._known[hashlib.sha256(token.encode()).digest()] = bearer, generation
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return bearer

    def _claims(self, token: str, key: JsonKey, algorithm: str) -> Mapping[str, Any]:
        import jwt

        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key=jwt.PyJWK(dict(key), algorithm),
                algorithms=[algorithm],
                issuer=self._issuer,
                audience=list(self._audience),
                leeway=self._leeway_s,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, OverflowError) as error:
            # These name claims and times, never the token.
            raise AuthenticationFailed(f"the token is refused: {error}") from None
        return claims

    def _bearer(self, claims: Mapping[str, Any]) -> Bearer:
        name = claims.get(self._claim)
        if not isinstance(name, str):
            raise AuthenticationFailed(f"the token has no claim {self._claim!r}")
        try:
            check_user_name(name)
        except InvalidRequest as error:
            raise AuthenticationFailed(f"the token's {self._claim}: {error.message}") from None
        return Bearer(name, min(int(claims["exp"]), END_MAX_S) * 1000)


def open_bearer_tokens(config: SecuritySettings) -> BearerTokens | None:
    """None where no identity provider is set."""
    if not config.oauth_jwks_file and not config.oauth_jwks_url:
        return None
    if config.oauth_jwks_file and config.oauth_jwks_url:
        raise InvalidConfig("oauth.jwks.file, oauth.jwks.url: only one of them can be set")
    if config.oauth_jwks_url:
        check_url(config.oauth_jwks_url)
    if not config.oauth_issuer or not config.oauth_audience:
        raise InvalidConfig(
            "oauth.issuer, oauth.audience: both must be set where there is an identity provider; "
            "tokens that it made for others would be taken otherwise"
        )
    keys = open_key_set(
        file=config.oauth_jwks_file,
        url=config.oauth_jwks_url,
        refresh_ms=config.oauth_jwks_refresh_ms,
    )
    return BearerTokens(config, keys)


def _header(token: str) -> Mapping[str, Any]:
    import jwt  # takes a tenth of a second, which only who has tokens waits for

    try:
        header: Mapping[str, Any] = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise AuthenticationFailed("the token is malformed") from None
    return header


def _fits(key: JsonKey, algorithm: str) -> bool:
    """A key is used for the algorithm that it says it is for, or one of its kind."""
    curve = _CURVES.get(algorithm)
    return key.get("alg", algorithm) == algorithm and (curve is None or key.get("crv") == curve)
