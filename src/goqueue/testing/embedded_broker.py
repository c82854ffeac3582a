"""A real broker inside a test's own process."""

import asyncio
import tempfile
import threading
import uuid
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import uvloop

from goqueue.model.broker_config import BrokerConfig
from goqueue.model.caller import ANONYMOUS, Caller, Door, Principal
from goqueue.model.errors import GoQueueError
from goqueue.model.security.users import USER_KIND
from goqueue.model.topics import NewTopic
from goqueue.server.addresses import Addresses
from goqueue.server.broker_server import BrokerServer
from goqueue.server.setting_sources import load_broker_config, settings_from_keywords
from goqueue.testing.secured_clients import ADMIN, SecuredClients

# Whoever runs a broker within their own process may do everything with it.
_OWNER: Final = Caller(principal=ANONYMOUS, door=Door.HTTP)
# The same where security is on.
_ADMIN: Final = Caller(principal=Principal(USER_KIND, ADMIN), door=Door.HTTP)
Result = TypeVar("Result")

# Far more than a start or stop takes; a test that hangs should say where.
_CALL_TIMEOUT_SECONDS: Final = 60.0


class NotRunning(GoQueueError):
    code = "not_running"


class EmbeddedBroker(SecuredClients):
    """A broker in a background thread, used as `with EmbeddedBroker() as broker` or `async with`.

    Settings are keyword arguments with underscores for dots: `num_partitions=1`,
    `topic_retention_ms=1000`. Ports are free ones unless given. Data goes to a temporary folder
    that is removed at the end, unless `data_dir` names one. With `security` it speaks TLS and knows
    an administrator; `client_config` and the like say how to log in.
    """

    def __init__(
        self, *, data_dir: str | Path | None = None, security: bool = False, **settings: object
    ) -> None:
        self._settings = {"kafka_port": 0, "http_port": 0, "log_level": "warning", **settings}
        self._given_data_dir = Path(data_dir) if data_dir is not None else None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._config: BrokerConfig | None = None
        self._running: _BrokerThread | None = None
        self._credentials: tempfile.TemporaryDirectory[str] | None = None
        if security:
            self._secure()

    def _secure(self) -> None:
        from goqueue.testing.secured import Secured

        self._credentials = tempfile.TemporaryDirectory(prefix="goqueue-security-")
        self.secured = Secured.make(Path(self._credentials.name))
        for name, value in self.secured.settings().items():
            self._settings[name.replace(".", "_")] = value

    def _addresses(self) -> tuple[str, str]:
        return self.bootstrap_servers, self.http_url

    @property
    def _owner(self) -> Caller:
        return _OWNER if self.secured is None else _ADMIN

    @property
    def bootstrap_servers(self) -> str:
        """Address for Kafka clients, `host:port`."""
        return self._started.addresses.bootstrap_servers

    @property
    def http_url(self) -> str:
        return self._started.addresses.http_url

    @property
    def data_dir(self) -> Path:
        if self._config is None:
            raise NotRunning("the broker was not started; use `with` or call start()")
        return self._config.data_dir

    def start(self) -> Self:
        """Start the broker and return once clients can connect."""
        if self._running is not None:
            raise NotRunning("the broker is running already")
        self._config = self._config or self._make_config()
        try:
            self._running = _BrokerThread(self._config)
        except BaseException:
            self._remove_temporary()
            raise
        return self

    def stop(self) -> None:
        """Shut the broker down cleanly; start() goes on with the same data."""
        running, self._running = self._running, None
        if running is not None:
            running.stop()

    def restart(self) -> None:
        """Stop, then start on the same data and ports."""
        addresses = self._started.addresses
        self.stop()
        self._settings.update(kafka_port=addresses.kafka_port, http_port=addresses.http_port)
        self._config = self._make_config()
        self.start()

    def close(self) -> None:
        """Stop, and remove the data if it is temporary."""
        try:
            self.stop()
        finally:
            self._remove_temporary()
            if self._credentials is not None:
                self._credentials.cleanup()

    def create_topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> str:
        """Make a topic (with a name of its own if none is given) and return its name."""
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        new = NewTopic(name=name, partitions=partitions, config=config or {})
        self._started.call(self._started.server.service.topics.make(self._owner, new))
        return name

    def delete_topic(self, name: str) -> None:
        self._started.call(self._started.server.service.topics.delete(self._owner, name))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    @property
    def _started(self) -> "_BrokerThread":
        if self._running is None:
            raise NotRunning("the broker is not running; use `with` or call start()")
        return self._running

    def _make_config(self) -> BrokerConfig:
        path = self._given_data_dir
        if path is None:
            if self._temporary is None:
                self._temporary = tempfile.TemporaryDirectory(prefix="goqueue-")
            path = Path(self._temporary.name)
        texts = settings_from_keywords({**self._settings, "data_dir": path})
        return load_broker_config(options=texts)

    def _remove_temporary(self) -> None:
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            temporary.cleanup()
            self._config = None


class _BrokerThread:
    """One run of a broker: a thread, its event loop, the server on it."""

    def __init__(self, config: BrokerConfig) -> None:
        self.server = BrokerServer(config)
        self._loop = uvloop.new_event_loop()
        # A daemon: a test that forgets to stop its broker still ends.
        self._thread = threading.Thread(target=self._run, name="goqueue-broker", daemon=True)
        self._thread.start()
        try:
            self.addresses: Addresses = self.call(self.server.start())
        except BaseException:
            self._end()
            raise

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run `work` on the broker's loop and wait for it here."""
        future: Future[Result] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(_CALL_TIMEOUT_SECONDS)

    def stop(self) -> None:
        try:
            self.call(self.server.stop())
        finally:
            self._end()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_TIMEOUT_SECONDS)
