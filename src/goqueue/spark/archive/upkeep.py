"""Keeps an archive's files few: small ones become large ones, and replaced ones go at last.

Each step is a commit of the table's own log: readers see the files before it or after it, and a
crash leaves one of the two. Records are never changed.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from goqueue.spark.archive.delta_table import TableTarget, open_table

if TYPE_CHECKING:
    from deltalake import DeltaTable

log = logging.getLogger(__name__)

TARGET_BYTES: Final = 128 * 1024 * 1024
# Readers that began before a file was replaced may still want it, and a task that is slow may
# still write one that no commit names yet.
MIN_KEEP_HOURS: Final = 168
_COMPACTION: Final = "OPTIMIZE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    # So many commits of the table between compactions; 0: never.
    compact_every: int = 50
    # Replaced files stay for so long; 0: for ever.
    keep_hours: int = MIN_KEEP_HOURS


def tidy(target: TableTarget, upkeep: Upkeep) -> bool:
    """Compact when it is time to; what fails is tried again at the next time."""
    if upkeep.compact_every == 0:
        return False
    table = open_table(target)
    if table is None or not _is_due(table, upkeep.compact_every):
        return False
    try:
        done = table.optimize.compact(target_size=TARGET_BYTES)
        log.info(
            "%s: %s files became %s", target.uri, done["numFilesRemoved"], done["numFilesAdded"]
        )
        if upkeep.keep_hours:
            gone = table.vacuum(upkeep.keep_hours, dry_run=False, full=True)
            log.info("%s: %d files that nobody needs are gone", target.uri, len(gone))
    except Exception as error:  # deltalake's and the disk's: the records are safe in any case
        log.warning("%s was not compacted: %s", target.uri, error)
        return False
    return True


def _is_due(table: "DeltaTable", compact_every: int) -> bool:
    """Whether the last commits, so many of them, were all of records."""
    last = table.history(compact_every)
    return len(last) == compact_every and all(each["operation"] != _COMPACTION for each in last)
