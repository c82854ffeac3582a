"""Settings of topics, groups, brokers and client metrics as callers change and see them."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from goqueue.model.settings import SettingType


class ConfigOp(Enum):
    """By Kafka's numbers (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    name: str
    op: ConfigOp = ConfigOp.SET
    value: str | None = None


class ConfigSource(Enum):
    """Where a value comes from, by Kafka's numbers."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigSynonym(NamedTuple):
    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    name: str
    value: str
    source: ConfigSource
    read_only: bool
    type: SettingType
    doc: str
    synonyms: tuple[ConfigSynonym, ...]
    # Its value, and those of its synonyms, are left out.
    is_sensitive: bool = False


class ConfigResourceKind(Enum):
    """By Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """What has settings. A broker without a name means all brokers."""

    kind: ConfigResourceKind
    name: str
