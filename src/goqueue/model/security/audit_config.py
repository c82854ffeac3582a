"""Settings of the audit: whether there is one, and where it goes."""

from dataclasses import dataclass
from typing import Final

from goqueue.model.settings import setting

_MIB: Final = 1024 * 1024
_DAY_MS: Final = 24 * 60 * 60 * 1000
AS_SECURITY: Final = "auto"


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    audit_enabled: str = setting(
        AS_SECURITY,
        choices=(AS_SECURITY, "true", "false"),
        doc="Note log-ins, refusals and administrative changes; auto: if security.enabled is true.",
    )
    audit_file_enabled: bool = setting(
        True,
        doc="Write the audit as lines of JSON to files in the folder audit of the data directory.",
    )
    # An entry has about 300 bytes: these are half a million of them.
    audit_file_max_bytes: int = setting(
        16 * _MIB,
        minimum=1_024,
        maximum=1_024 * _MIB,
        doc="An audit file that has reached this size is closed and a new one begun.",
    )
    audit_file_max_files: int = setting(
        10, minimum=1, maximum=10_000, doc="Audit files kept; the oldest go."
    )
    audit_topic_enabled: bool = setting(
        True, doc="Write the audit of all brokers to the topic __audit."
    )
    # Long enough to look back when something is found at the end of a quarter.
    audit_topic_retention_ms: int = setting(
        90 * _DAY_MS,
        minimum=-1,
        doc="How long the topic __audit keeps entries, when it is made; -1 is no limit.",
    )
