"""A broker whose users log in, without TLS, which has a bench of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from goqueue.broker.security.master_key import FILE_NAME, make_master_key
from goqueue.model.client_security import SCRAM_SHA_256

ADMIN: Final = "admin"
# Of everybody: nobody else reaches these brokers.
PASSWORD: Final = "of the bench"


def security_settings(folder: Path) -> dict[str, str]:
    """For a broker with an administrator; makes the files that it needs."""
    folder.mkdir()
    users = folder / "first-users.toml"
    users.touch(mode=0o600)
    users.write_text(f'[[users]]\nname = "{ADMIN}"\npassword = "{PASSWORD}"\nadmin = true\n')
    make_master_key(folder / FILE_NAME)
    return {
        "security.enabled": "true",
        "security.bootstrap.file": str(users),
        "security.master.key.file": str(folder / FILE_NAME),
    }


def log_in(user: str) -> dict[str, Any]:
    """For librdkafka."""
    return {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": SCRAM_SHA_256,
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }


def administration(url: str, user: str = ADMIN) -> httpx.Client:
    return httpx.Client(base_url=url, auth=(user, PASSWORD), timeout=60)


def make_tenant(http: httpx.Client, name: str, limits: Mapping[str, float]) -> str:
    """Returns its administrator, who may do everything in it."""
    http.post("/tenants", json={"name": name, "limits": limits}).raise_for_status()
    user = {"name": f"{name}-boss", "password": PASSWORD, "tenant": name, "admin": True}
    http.post("/users", json=user).raise_for_status()
    return f"{name}-boss"
