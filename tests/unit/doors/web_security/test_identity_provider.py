"""Tokens of an identity provider at the HTTP port."""

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from goqueue.broker.node import Node
from goqueue.service.broker_service import BrokerService
from tests.jwt_issuer import AUDIENCE, ISSUER, key_set, public, rsa_key, token
from tests.unit.doors.web_security.conftest import MAKER, failed_log_ins

pytestmark = pytest.mark.anyio

KEY = rsa_key()


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "keys.json"
    path.write_text(key_set(public(KEY, "one")))
    return {"oauth.jwks.file": str(path), "oauth.issuer": ISSUER, "oauth.audience": AUDIENCE}


async def test_a_token_lets_in_as_whom_it_speaks_of(
    nobody: httpx.AsyncClient, service: BrokerService, broker: Node
) -> None:
    def bearer(**claims: Any) -> dict[str, str]:
        return {"authorization": f"Bearer {token(KEY, 'one', **claims)}"}

    # Its rights are those of a user here, and somebody else may have the name there.
    refused = await nobody.get("/whoami", headers=bearer())
    assert refused.status_code == 401
    await service.users.set_federated(MAKER, "alice", True)
    answer = await nobody.get("/whoami", headers=bearer())
    assert answer.json()["principal"] == "User:alice"
    ended = int(time.time()) - 1_000
    for wrong in (bearer(exp=ended), bearer(aud="another"), bearer(iss="another")):
        refused = await nobody.get("/whoami", headers=wrong)
        assert refused.status_code == 401
        assert refused.json()["error"]["message"].endswith("the token is not valid")
    assert failed_log_ins(broker)["http"] == 4
    # Rights are those of the name, whether it is kept as a user or not.
    assert (await nobody.get("/users", headers=bearer())).status_code == 403
    await service.users.set_admin(MAKER, "alice", True)
    assert (await nobody.get("/users", headers=bearer())).status_code == 200
