"""What can be set per group, and the broker's settings that are its defaults. Kafka's names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from goqueue.model.errors import InvalidConfig
from goqueue.model.settings import (
    INT32_MAX,
    SettingTable,
    Value,
    field_values,
    setting,
    settings_of,
)

_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, kw_only=True)
class GroupDefaults:
    """Settings of a broker that hold for groups without settings of their own."""

    # Kafka's times, here and for share groups: three to nine missed heartbeats end a session.
    group_consumer_session_timeout_ms: int = setting(
        45_000,
        minimum=1,
        maximum=INT32_MAX,
        doc="A member of the consumer protocol silent for this long is removed.",
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        5_000,
        minimum=1,
        maximum=INT32_MAX,
        doc="How often members of the consumer protocol are told to send a heartbeat.",
    )
    group_share_delivery_count_limit: int = setting(
        5,
        minimum=1,
        maximum=1_000,
        doc="How often a share group may get a record; then it is a dead letter.",
    )
    group_share_record_lock_duration_ms: int = setting(
        30_000,
        minimum=100,
        maximum=_HOUR_MS,
        doc="How long a member of a share group has a record before others may get it.",
    )
    group_share_partition_max_record_locks: int = setting(
        2_000,
        minimum=1,
        maximum=100_000,
        doc="Records of one partition that a share group's members may have at once.",
    )
    group_share_session_timeout_ms: int = setting(
        45_000,
        minimum=1,
        maximum=INT32_MAX,
        doc="A member of a share group silent for this long is removed.",
    )
    group_share_heartbeat_interval_ms: int = setting(
        5_000,
        minimum=1,
        maximum=INT32_MAX,
        doc="How often members of share groups are told to send a heartbeat.",
    )
    group_streams_session_timeout_ms: int = setting(
        45_000,
        minimum=1,
        maximum=INT32_MAX,
        doc="A member of a streams group silent for this long is removed.",
    )
    group_streams_heartbeat_interval_ms: int = setting(
        5_000,
        minimum=1,
        maximum=INT32_MAX,
        doc="How often members of streams groups are told to send a heartbeat.",
    )
    # Each copies all changelogs once more. Kafka allows as many.
    group_streams_num_standby_replicas: int = setting(
        0,
        minimum=0,
        maximum=2,
        doc="Processes that keep the state of each task of a streams group ready besides the one "
        "that works on it.",
    )


_BROKER_SETTINGS: Final = settings_of(GroupDefaults)
_BROKER_PREFIX: Final = "group."

# Where a group's setting has its default from.
BROKER_NAMES: Final[Mapping[str, str]] = {
    name.removeprefix(_BROKER_PREFIX): name for name in _BROKER_SETTINGS
}


@dataclass(frozen=True, kw_only=True)
class _OwnSettings:
    """Settings of a group that no setting of the broker is the default of."""

    share_auto_offset_reset: str = setting(
        "latest",
        doc="Where a new share group begins: latest, earliest, or by_duration:PT1H30M, which "
        "is this long ago.",
    )
    share_isolation_level: str = setting(
        "read_committed",
        choices=("read_committed", "read_uncommitted"),
        doc="Whether records of open and aborted transactions are delivered.",
    )
    share_renew_acknowledge_enable: bool = setting(
        True,
        doc="Whether members may keep a record for longer by renewing its lock (KIP-1222).",
    )


GROUP_SETTINGS: Final = SettingTable(
    (
        *(replace(_BROKER_SETTINGS[of], name=name) for name, of in BROKER_NAMES.items()),
        *settings_of(_OwnSettings).values(),
    )
)

# ISO 8601 as Java reads it: days, hours, minutes, seconds; no months, whose length differs.
_DURATION: Final = re.compile(
    r"by_duration:P(?=\d|T\d)(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?"
    r"(?:(\d{1,9})(?:\.(\d{1,3})\d*)?S)?)?",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, kw_only=True)
class GroupConfig(_OwnSettings):
    """The settings of one group, parsed, with defaults filled in."""

    consumer_session_timeout_ms: int
    consumer_heartbeat_interval_ms: int
    share_session_timeout_ms: int
    share_heartbeat_interval_ms: int
    share_record_lock_duration_ms: int
    share_delivery_count_limit: int
    share_partition_max_record_locks: int
    streams_session_timeout_ms: int
    streams_heartbeat_interval_ms: int
    streams_num_standby_replicas: int

    def share_start(self, now_ms: int) -> str | int:
        """`earliest`, `latest`, or the time from which on a new share group reads."""
        back_ms = duration_ms(self.share_auto_offset_reset)
        if back_ms is None:
            return self.share_auto_offset_reset.lower()
        return max(now_ms - back_ms, 0)


def check_group_config(texts: Mapping[str, str]) -> dict[str, Value]:
    values = GROUP_SETTINGS.parse(texts)
    reset = str(values.get("share.auto.offset.reset", "latest"))
    if reset.lower() not in ("latest", "earliest") and duration_ms(reset) is None:
        raise InvalidConfig(
            f"share.auto.offset.reset: {reset!r} is not one of latest, earliest, and "
            "by_duration:<ISO 8601 duration>, such as by_duration:PT1H30M"
        )
    return values


def group_config(texts: Mapping[str, str], defaults: Mapping[str, Value]) -> GroupConfig:
    """Parse a group's own settings; `defaults` are the broker's, by the group's names."""
    return GroupConfig(**field_values({**defaults, **check_group_config(texts)}))


def duration_ms(text: str) -> int | None:
    """How long ago `by_duration:…` is; None for anything else."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds, fraction = found.groups()
    whole = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60
    return (whole + int(seconds or 0)) * 1_000 + int((fraction or "0").ljust(3, "0"))
