"""What can be set per group, and the broker's settings that are its defaults. Kafka's names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from goqueue.model.errors import InvalidConfig
from goqueue.model.settings import INT32_MAX, Setting, SettingTable, SettingType, Value

_INT = SettingType.INT
_HOUR_MS: Final = 3_600_000

SHARE_BROKER_SETTINGS: Final = (
    Setting(
        name="group.share.delivery.count.limit",
        type=_INT,
        default=5,
        minimum=1,
        maximum=1_000,
        doc="How often a share group may get a record; then it is a dead letter.",
    ),
    Setting(
        name="group.share.record.lock.duration.ms",
        type=_INT,
        default=30_000,
        minimum=100,
        maximum=_HOUR_MS,
        doc="How long a member of a share group has a record before others may get it.",
    ),
    Setting(
        name="group.share.partition.max.record.locks",
        type=_INT,
        default=2_000,
        minimum=1,
        maximum=100_000,
        doc="Records of one partition that a share group's members may have at once.",
    ),
    Setting(
        name="group.share.max.size",
        type=_INT,
        default=200,
        minimum=1,
        maximum=10_000,
        doc="Members that a share group may have.",
    ),
    Setting(
        name="group.share.session.timeout.ms",
        type=_INT,
        default=45_000,
        minimum=1,
        maximum=INT32_MAX,
        doc="A member of a share group silent for this long is removed.",
    ),
    Setting(
        name="group.share.heartbeat.interval.ms",
        type=_INT,
        default=5_000,
        minimum=1,
        maximum=INT32_MAX,
        doc="How often members of share groups are told to send a heartbeat.",
    ),
    Setting(
        name="group.share.max.share.sessions",
        type=_INT,
        default=2_000,
        minimum=1,
        maximum=1_000_000,
        doc="Share sessions open at once on this broker; a further one is refused.",
    ),
)

# Where a group's setting has its default from.
BROKER_NAMES: Final[Mapping[str, str]] = {
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "share.session.timeout.ms": "group.share.session.timeout.ms",
    "share.heartbeat.interval.ms": "group.share.heartbeat.interval.ms",
    "share.record.lock.duration.ms": "group.share.record.lock.duration.ms",
    "share.delivery.count.limit": "group.share.delivery.count.limit",
    "share.partition.max.record.locks": "group.share.partition.max.record.locks",
}

GROUP_SETTINGS: Final = SettingTable(
    (
        Setting(
            name="consumer.session.timeout.ms",
            type=_INT,
            default=45_000,
            minimum=1,
            maximum=INT32_MAX,
            doc="A member of the consumer protocol silent for this long is removed.",
        ),
        Setting(
            name="consumer.heartbeat.interval.ms",
            type=_INT,
            default=5_000,
            minimum=1,
            maximum=INT32_MAX,
            doc="How often members of the consumer protocol are told to send a heartbeat.",
        ),
        Setting(
            name="share.session.timeout.ms",
            type=_INT,
            default=45_000,
            minimum=1,
            maximum=INT32_MAX,
            doc="A member of this share group silent for this long is removed.",
        ),
        Setting(
            name="share.heartbeat.interval.ms",
            type=_INT,
            default=5_000,
            minimum=1,
            maximum=INT32_MAX,
            doc="How often members of this share group are told to send a heartbeat.",
        ),
        Setting(
            name="share.record.lock.duration.ms",
            type=_INT,
            default=30_000,
            minimum=100,
            maximum=_HOUR_MS,
            doc="How long a member of this share group has a record before others may get it.",
        ),
        Setting(
            name="share.delivery.count.limit",
            type=_INT,
            default=5,
            minimum=1,
            maximum=1_000,
            doc="How often this share group may get a record; then it is a dead letter.",
        ),
        Setting(
            name="share.partition.max.record.locks",
            type=_INT,
            default=2_000,
            minimum=1,
            maximum=100_000,
            doc="Records of one partition that this group's members may have at once.",
        ),
        Setting(
            name="share.auto.offset.reset",
            type=SettingType.STRING,
            default="latest",
            doc="Where a new share group begins: latest, earliest, or by_duration:PT1H30M, which "
            "is this long ago.",
        ),
        Setting(
            name="share.isolation.level",
            type=SettingType.STRING,
            default="read_committed",
            choices=("read_committed", "read_uncommitted"),
            doc="Whether records of open and aborted transactions are delivered.",
        ),
        Setting(
            name="share.renew.acknowledge.enable",
            type=SettingType.BOOLEAN,
            default=True,
            doc="Whether members may keep a record for longer by renewing its lock (KIP-1222).",
        ),
    )
)

# ISO 8601 as Java reads it: days, hours, minutes, seconds; no months, whose length differs.
_DURATION: Final = re.compile(
    r"by_duration:P(?=\d|T\d)(?:(\d{1,9})D)?(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?"
    r"(?:(\d{1,9})(?:\.(\d{1,3})\d*)?S)?)?",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The settings of one group, parsed, with defaults filled in."""

    consumer_session_timeout_ms: int
    consumer_heartbeat_interval_ms: int
    share_session_timeout_ms: int
    share_heartbeat_interval_ms: int
    share_record_lock_duration_ms: int
    share_delivery_count_limit: int
    share_partition_max_record_locks: int
    share_auto_offset_reset: str
    share_isolation_level: str
    share_renew_acknowledge_enable: bool

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
    values: dict[str, Value] = {name: setting.default for name, setting in GROUP_SETTINGS.items()}
    values.update(defaults)
    values.update(check_group_config(texts))
    return GroupConfig(**{name.replace(".", "_"): value for name, value in values.items()})  # type: ignore[arg-type]


def duration_ms(text: str) -> int | None:
    """How long ago `by_duration:…` is; None for anything else."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds, fraction = found.groups()
    whole = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60
    return (whole + int(seconds or 0)) * 1_000 + int((fraction or "0").ljust(3, "0"))
