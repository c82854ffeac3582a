"""What clients push to this broker, unpacked within bounds."""

import logging
from collections.abc import Callable, Mapping
from uuid import uuid4

from goqueue.model.broker_config import BrokerConfig
from goqueue.model.client_metrics.messages import (
    ClientFigures,
    Push,
    SubscriptionAnswer,
    TelemetryClient,
    TelemetryError,
)
from goqueue.model.errors import CorruptBatch, InvalidRequest, UnpackedTooLarge
from goqueue.model.rights import DescribableCluster
from goqueue.model.unpacking import unpack_bytes
from goqueue.state.client_metrics.instances import ClientInstances, Unpacked
from goqueue.state.client_metrics.subscriptions import Subscription

logger = logging.getLogger(__name__)


class Telemetry:
    def __init__(
        self,
        subscriptions: Callable[[], Mapping[str, Mapping[str, str]]],
        config: BrokerConfig,
        clock_ms: Callable[[], int],
    ) -> None:
        """`subscriptions`: the settings of each, by its name."""
        self._wanted = subscriptions
        # As held against clients now, and what they were made from.
        self._known: Mapping[str, Mapping[str, str]] = {}
        self.max_bytes = config.telemetry_max_bytes
        self._clock_ms = clock_ms
        self._instances = ClientInstances(self.max_bytes, uuid4)

    @property
    def are_wanted(self) -> bool:
        return bool(self._wanted())

    def ask(self, client: TelemetryClient) -> SubscriptionAnswer:
        self._catch_up()
        return self._instances.ask(client, now_ms=self._clock_ms())

    def push(self, client: TelemetryClient, push: Push) -> TelemetryError:
        self._catch_up()
        return self._instances.push(client, push, self._unpack, now_ms=self._clock_ms())

    def figures(self, _cluster: DescribableCluster) -> ClientFigures:
        return self._instances.figures(self._clock_ms())

    def _catch_up(self) -> None:
        wanted = self._wanted()
        if wanted is self._known:
            return
        self._known = wanted
        subscriptions = []
        for name, texts in wanted.items():
            try:
                subscriptions.append(Subscription(texts))
            except InvalidRequest as error:
                # Stored by a release that takes more.
                logger.error("client metrics %r are not subscribed to: %s", name, error)
        self._instances.subscribe(subscriptions)

    def _unpack(self, push: Push) -> Unpacked:
        # Here, with the first push: protobuf takes a while to import.
        from goqueue.model.client_metrics.otlp import decode_metrics

        try:
            data = unpack_bytes(push.metrics, push.compression, self.max_bytes)
            decoded = decode_metrics(bytes(data))
        except UnpackedTooLarge:
            return Unpacked(TelemetryError.TOO_LARGE)
        except (CorruptBatch, InvalidRequest) as error:
            logger.debug("metrics of a client are left out: %s", error)
            return Unpacked(TelemetryError.INVALID_METRICS)
        return Unpacked(TelemetryError.NONE, decoded.points, decoded.is_cut)
