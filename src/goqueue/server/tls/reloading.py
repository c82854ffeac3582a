"""The certificate in use, and the next one: files are looked at while the broker runs.

Connections that are open keep theirs. A file that cannot be used leaves everything as it is.
"""

import asyncio
import logging
import ssl

from goqueue.model.broker_config import BrokerConfig
from goqueue.model.errors import GoQueueError
from goqueue.model.measuring.tls import TlsFigures
from goqueue.model.security.principal_mapping import parse_mapping
from goqueue.server.tls.contexts import (
    FileStamp,
    LoadedTls,
    load_tls,
    stamps,
    warn_of_end,
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
        self._context = loaded.context
        self._seen = seen
        self._mapping = parse_mapping(config.tls_principal_mapping_rules)
        self._is_asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.figures = figures
        figures.expires_s = loaded.expires_s

    @classmethod
    async def load(cls, config: BrokerConfig, figures: TlsFigures) -> "Certificates":
        """`StartFailed` where the files cannot be used."""
        # Before: what changes meanwhile is seen as changed.
        seen = await asyncio.to_thread(stamps, config)
        loaded = await asyncio.to_thread(load_tls, config)
        warn_of_end(loaded.expires_s, config.tls_certificate_file)
        return cls(config, loaded, seen, figures)

    @property
    def context(self) -> ssl.SSLContext:
        return self._context

    def client_name(self, certificate: bytes) -> str | None:
        return self._mapping.name(distinguished_name(certificate))

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
            if is_asked or found != self._seen:
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
        self._context = loaded.context
        self.figures.expires_s = loaded.expires_s
        self.figures.reloads += 1
        log.info("the certificate was loaded again: new connections use it")
        warn_of_end(loaded.expires_s, self._config.tls_certificate_file)

    def _failed(self, reason: str) -> None:
        self.figures.reload_failures += 1
        log.error("the certificate is not loaded again, and the one before is used: %s", reason)


def distinguished_name(certificate: bytes) -> str:
    """As Kafka writes it (RFC 4514): `CN=alice,OU=sales`."""
    from cryptography import x509  # only where clients show certificates

    return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
