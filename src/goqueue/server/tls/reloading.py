"""The certificate in use, and the next one: files are looked at while the broker runs.

Connections that are open keep theirs, unless their clients' certificates no longer count. A file
that cannot be used leaves everything as it is, and is tried again.
"""

import asyncio
import logging
from collections.abc import Sequence

from cryptography.x509 import Certificate
from OpenSSL import SSL

from goqueue.doors.tls.entrance import TlsEntrance
from goqueue.model.broker_config import BrokerConfig
from goqueue.model.errors import GoQueueError
from goqueue.model.measuring.tls import TlsFigures
from goqueue.model.security.principal_mapping import parse_mapping
from goqueue.server.tls.contexts import (
    FileStamp,
    LoadedTls,
    load_tls,
    stamps,
    warn_of_ends,
)

log = logging.getLogger(__name__)


class Certificates:
    def __init__(
        self,
        config: BrokerConfig,
        loaded: LoadedTls,
        seen: tuple[FileStamp | None, ...],
        figures: TlsFigures,
    ) -> None:
        self._config = config
        self._interval_s = config.tls_reload_interval_ms / 1000
        self._loaded = loaded
        self._seen = seen
        # Why the files were not usable when last tried; None: they were.
        self._failure: str | None = None
        self._entrances: list[TlsEntrance] = []
        self._mapping = parse_mapping(config.tls_principal_mapping_rules)
        self._is_asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.figures = figures
        self._take_down()

    @classmethod
    async def load(cls, config: BrokerConfig, figures: TlsFigures) -> "Certificates":
        """`StartFailed` where the files cannot be used."""
        # Before: what changes meanwhile is seen as changed.
        seen = await asyncio.to_thread(stamps, config)
        loaded = await asyncio.to_thread(load_tls, config)
        warn_of_ends(loaded, config)
        return cls(config, loaded, seen, figures)

    @property
    def context(self) -> SSL.Context:
        return self._loaded.context

    def client_name(self, certificate: Certificate) -> str | None:
        return self._mapping.name(distinguished_name(certificate))

    def refusal(self, chain: Sequence[Certificate]) -> str | None:
        return self._loaded.trust.refusal(chain)

    def entrance(self, door: str) -> TlsEntrance:
        made = TlsEntrance(self, door, is_optional=self._config.tls_optional)
        self._entrances.append(made)
        return made

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch(), name="certificates")

    def reload_soon(self) -> None:
        """Whether or not files have changed."""
        self._is_asked.set()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._is_asked.wait()
            except TimeoutError:
                pass
            is_asked = self._is_asked.is_set()
            self._is_asked.clear()
            found = await asyncio.to_thread(stamps, self._config)
            if is_asked or found != self._seen or self._failure is not None:
                self._seen = found
                await self._reload()

    async def _reload(self) -> None:
        try:
            loaded = await asyncio.to_thread(load_tls, self._config)
        except GoQueueError as error:
            self._failed(error.message)
            return
        except Exception as error:  # whatever a library says to a file
            self._failed(str(error))
            return
        before, self._loaded = self._loaded, loaded
        self._failure = None
        self.figures.reloads += 1
        self._take_down()
        log.info("the certificate was loaded again: new connections use it")
        warn_of_ends(loaded, self._config)
        if loaded.trust != before.trust:
            for entrance in self._entrances:
                entrance.close_refused()

    def _failed(self, reason: str) -> None:
        """Perhaps half of the files are replaced: they are tried again, and told of once."""
        self.figures.reload_failures += 1
        is_known, self._failure = reason == self._failure, reason
        self._take_down()
        if not is_known:
            log.error(
                "the certificate is not loaded again, and the one before is used: %s; it is tried "
                "again every %g s",
                reason,
                self._interval_s,
            )

    def _take_down(self) -> None:
        self.figures.expires_s = self._loaded.expires_s
        self.figures.crl_expires_s = self._loaded.crl_expires_s
        self.figures.is_stale = self._failure is not None


def distinguished_name(certificate: Certificate) -> str:
    """As Kafka writes it (RFC 4514): `CN=alice,OU=sales`."""
    return certificate.subject.rfc4514_string()
