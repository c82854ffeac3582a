"""What can be set per subscription to clients' metrics, and of the broker. Kafka's names."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from goqueue.model.errors import InvalidConfig, InvalidRequest
from goqueue.model.settings import INT32_MAX, field_values, setting, settings_of

# Kafka's.
INTERVAL_MIN_MS: Final = 100
INTERVAL_MAX_MS: Final = 3_600_000
# By which a subscription can choose clients.
MATCHED_ATTRIBUTES: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
ALL_METRICS: Final = "*"
# A name is shown, and is part of a key of the metadata.
NAME_MAX_LENGTH: Final = 249
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]+")
# A client that does not know yet what to push is held against each of them.
SUBSCRIPTIONS_MAX: Final = 100
# What is told to every client that a subscription chooses.
PREFIXES_MAX: Final = 200
PREFIX_MAX_LENGTH: Final = 200


@dataclass(frozen=True, kw_only=True)
class TelemetrySettings:
    """Of a broker."""

    # Kafka's. A Java producer with hundreds of partitions pushes some 100 KB.
    telemetry_max_bytes: int = setting(
        1_048_576,
        minimum=1_024,
        maximum=INT32_MAX,
        doc="The largest push of metrics that is taken from a client, packed and unpacked.",
    )


@dataclass(frozen=True, kw_only=True)
class ClientMetricsConfig:
    """One subscription, parsed, with defaults filled in."""

    interval_ms: int = setting(
        300_000,
        minimum=0,
        maximum=INT32_MAX,
        doc=f"How often clients push, from {INTERVAL_MIN_MS} to {INTERVAL_MAX_MS}.",
    )
    metrics: tuple[str, ...] = setting(
        (),
        doc="Prefixes of the names of metrics that clients push; * is all of them.",
    )
    match: tuple[str, ...] = setting(
        (),
        doc="Which clients push, as name=regular expression of: "
        f"{', '.join(MATCHED_ATTRIBUTES)}. All must match; without any, all clients push.",
    )

    @property
    def patterns(self) -> dict[str, str]:
        """By attribute."""
        return {
            name.strip(): pattern.strip()
            for name, _, pattern in (item.partition("=") for item in self.match)
        }


CLIENT_METRICS_SETTINGS: Final = settings_of(ClientMetricsConfig)


def check_names(names: Iterable[str]) -> None:
    for name in names:
        if name not in CLIENT_METRICS_SETTINGS:
            raise InvalidRequest(
                f"{name}: no such setting of client metrics; there are "
                f"{', '.join(CLIENT_METRICS_SETTINGS)}"
            )


def client_metrics_config(texts: Mapping[str, str]) -> ClientMetricsConfig:
    check_names(texts)
    config = ClientMetricsConfig(**field_values(CLIENT_METRICS_SETTINGS.parse(texts)))
    if not INTERVAL_MIN_MS <= config.interval_ms <= INTERVAL_MAX_MS:
        raise InvalidRequest(
            f"interval.ms: {config.interval_ms} is outside {INTERVAL_MIN_MS} to {INTERVAL_MAX_MS}"
        )
    if len(config.metrics) > PREFIXES_MAX or any(
        len(prefix) > PREFIX_MAX_LENGTH for prefix in config.metrics
    ):
        raise InvalidConfig(
            f"metrics: at most {PREFIXES_MAX} prefixes of {PREFIX_MAX_LENGTH} characters"
        )
    for item in config.match:
        name, equals, pattern = (part.strip() for part in item.partition("="))
        if name not in MATCHED_ATTRIBUTES or not equals or not pattern:
            raise InvalidConfig(
                f"match: {item!r} is not name=pattern, with one of {', '.join(MATCHED_ATTRIBUTES)}"
            )
    if len(config.patterns) < len(config.match):
        raise InvalidConfig("match: gives a pattern for the same name twice")
    return config


def check_subscription_name(name: str) -> None:
    if len(name) > NAME_MAX_LENGTH or _NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"name of client metrics: must have 1 to {NAME_MAX_LENGTH} characters, and no control "
            "characters"
        )
