"""An identity provider for tests: keys, the set of their public halves, and tokens."""

import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://issuer.example"
AUDIENCE = "goqueue"

PrivateKey = Any


def rsa_key() -> PrivateKey:
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


def ec_key() -> PrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def ed_key() -> PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def public(key: PrivateKey, key_id: str, **more: str) -> dict[str, Any]:
    """As it stands in a set of keys."""
    kinds: dict[type, Any] = {
        rsa.RSAPrivateKey: RSAAlgorithm,
        ec.EllipticCurvePrivateKey: ECAlgorithm,
        ed25519.Ed25519PrivateKey: OKPAlgorithm,
    }
    algorithm = next(each for kind, each in kinds.items() if isinstance(key, kind))
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": key_id, **more}


def key_set(*keys: dict[str, Any]) -> str:
    return json.dumps({"keys": keys})


def token(
    key: PrivateKey, key_id: str | None = "one", algorithm: str = "RS256", **claims: Any
) -> str:
    """For alice, and valid for an hour; a claim that is None is left out."""
    usual = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 3_600}
    kept = {name: value for name, value in {**usual, **claims}.items() if value is not None}
    headers = None if key_id is None else {"kid": key_id}
    return jwt.encode(kept, key, algorithm=algorithm, headers=headers)
