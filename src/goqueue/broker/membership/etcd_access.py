"""From the settings of a cluster to its metadata store. etcd's client is imported only here."""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.metadata.store import MetadataStore
from goqueue.model.cluster_config import ClusterSettings, parse_cluster
from goqueue.model.errors import InvalidConfig, MetadataUnavailable

if TYPE_CHECKING:
    from goqueue.metadata.etcd.store import EtcdStore

logger = logging.getLogger(__name__)

_RETRY_S: Final = 1.0


async def open_etcd(settings: ClusterSettings) -> MetadataStore:
    """Returns when etcd answers; until then it is tried again, and somebody is told why."""
    try:
        from goqueue.metadata.etcd.client import EtcdAddress
        from goqueue.metadata.etcd.store import EtcdStore
    except ModuleNotFoundError as error:
        raise InvalidConfig(
            f"cluster: needs the package {error.name}; install it with "
            "`pip install 'goqueue[cluster]'`"
        ) from error
    where = parse_cluster(settings.cluster)
    password = _read("cluster.etcd.password.file", settings.cluster_etcd_password_file)
    address = EtcdAddress(
        endpoints=where.endpoints,
        prefix=where.prefix,
        ca=_read("cluster.etcd.ca.file", settings.cluster_etcd_ca_file),
        certificate=_read("cluster.etcd.certificate.file", settings.cluster_etcd_certificate_file),
        key=_read("cluster.etcd.key.file", settings.cluster_etcd_key_file),
        user=settings.cluster_etcd_user,
        password="" if password is None else password.decode().strip(),
    )
    store = await EtcdStore.open(address)
    try:
        await _wait_until_it_answers(store)
    except BaseException:
        await store.close()
        raise
    return store


async def _wait_until_it_answers(store: "EtcdStore") -> None:
    while True:
        try:
            version = await store.version()
        except MetadataUnavailable as error:
            logger.error("the cluster's metadata cannot be reached, tried again: %s", error)
            await asyncio.sleep(_RETRY_S)
        else:
            logger.info("the cluster's metadata is in etcd %s", version)
            return


def _read(name: str, path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidConfig(f"{name}: {path}: {error.strerror}") from error
