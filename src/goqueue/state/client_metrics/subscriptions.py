"""Subscriptions, held against clients."""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from crc32c import crc32c

from goqueue.model.client_metrics.config import (
    ALL_METRICS,
    ClientMetricsConfig,
    client_metrics_config,
)
from goqueue.model.client_metrics.messages import Subscribed, TelemetryClient
from goqueue.model.errors import InvalidConfig
from goqueue.state.groups.topic_regex import InvalidRegex, TopicRegex

# Of what a client says of itself, for patterns.
_ATTRIBUTE_MAX_LENGTH: Final = 1_000
_DEFAULT_INTERVAL_MS: Final = ClientMetricsConfig().interval_ms
_SIGN: Final = 2**31


class Subscription:
    """One, ready to be held against clients. Raises for settings that cannot be."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._config = client_metrics_config(texts)
        self._patterns = {name: _pattern(text) for name, text in self._config.patterns.items()}

    @property
    def metrics(self) -> tuple[str, ...]:
        return self._config.metrics

    @property
    def interval_ms(self) -> int:
        return self._config.interval_ms

    def chooses(self, client: TelemetryClient) -> bool:
        attributes = _attributes(client)
        return all(pattern.matches(attributes[name]) for name, pattern in self._patterns.items())


def subscribed(subscriptions: Iterable[Subscription], client: TelemetryClient) -> Subscribed:
    """What all subscriptions together want of a client: every metric, at the shortest interval."""
    chosen = [each for each in subscriptions if each.chooses(client)]
    metrics: tuple[str, ...] = tuple(sorted({name for each in chosen for name in each.metrics}))
    if ALL_METRICS in metrics:
        metrics = (ALL_METRICS,)
    interval_ms = min((each.interval_ms for each in chosen), default=_DEFAULT_INTERVAL_MS)
    return Subscribed(_id(metrics, interval_ms, client.instance_id), metrics, interval_ms)


def _id(metrics: tuple[str, ...], interval_ms: int, instance_id: UUID) -> int:
    """The same on every broker, and another one for other wishes (KIP-714)."""
    said = crc32c(f"{','.join(metrics)} {interval_ms}".encode()) ^ crc32c(instance_id.bytes)
    return said - 2 * _SIGN if said >= _SIGN else said


def _pattern(text: str) -> TopicRegex:
    try:
        pattern = TopicRegex(text)
        pattern.check_work(_ATTRIBUTE_MAX_LENGTH)
    except InvalidRegex as error:
        raise InvalidConfig(f"match: {error}") from None
    return pattern


def _attributes(client: TelemetryClient) -> dict[str, str]:
    said = {
        "client_instance_id": client.instance,
        "client_id": client.client_id,
        "client_software_name": client.software.name,
        "client_software_version": client.software.version,
        "client_source_address": client.address,
        "client_source_port": str(client.port),
    }
    return {name: text[:_ATTRIBUTE_MAX_LENGTH] for name, text in said.items()}
