"""Users of a broker that is not running: written where it keeps them."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any, Final

from goqueue.broker.security.first_users import add_user
from goqueue.broker.security.users import records_of
from goqueue.cli.failures import CommandFailed
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.errors import DataDirectoryInUse
from goqueue.model.security.tenants import check_tenant_name
from goqueue.model.security.users import User, check_user_name
from goqueue.server.setting_sources import load_broker_config
from goqueue.server.stopped_store import stopped_store

# A broker waits for etcd for as long as it takes; somebody at a terminal wants to know.
CLUSTER_PATIENCE_SECONDS: Final = 20.0


def create_stopped(
    name: str,
    password: str | None,
    *,
    is_admin: bool,
    tenant: str,
    data_dir: Path | None,
    cluster: str | None,
    config_file: Path | None,
    is_federated: bool = False,
) -> dict[str, Any]:
    """The user, as the broker would tell it."""
    check_user_name(name)
    if tenant:
        check_tenant_name(tenant)
    options = {"data.dir": data_dir, "cluster": cluster}
    config = load_broker_config(
        config_file=config_file,
        environment=os.environ,
        options={key: str(value) for key, value in options.items() if value is not None},
    )
    user = User(
        name=name,
        tenant=tenant,
        is_admin=is_admin,
        is_federated=is_federated,
        scram={} if password is None else records_of(password),
        created_ms=time.time_ns() // 1_000_000,
    )
    asyncio.run(_write(config, user))
    return {
        "name": user.name,
        "tenant": user.tenant,
        "admin": user.is_admin,
        "federated": user.is_federated,
        "mechanisms": sorted(user.scram),
        "createdMs": user.created_ms,
    }


async def _write(config: BrokerConfig, user: User) -> None:
    patience_s = CLUSTER_PATIENCE_SECONDS if config.cluster else None
    try:
        async with asyncio.timeout(patience_s), stopped_store(config) as store:
            await add_user(store, user)
    except TimeoutError:
        raise CommandFailed(
            f"--cluster: {config.cluster} does not answer; look whether {user.name} was made"
        ) from None
    except DataDirectoryInUse:
        raise CommandFailed(
            f"a broker runs on {config.data_dir}: stop it first; or ask it, as an administrator: "
            f"`goqueue users create {user.name}{' --admin' if user.is_admin else ''}` without "
            "--data-dir"
        ) from None
