"""Remove old backups, and the objects that no other backup needs."""

import time
from datetime import UTC, datetime
from typing import NamedTuple

from goqueue.backup.catalogue import Catalogue
from goqueue.backup.creating import new_backup_id
from goqueue.backup.errors import BackupDamaged, BackupFailed, BackupTooNew
from goqueue.backup.pruning import Prune, choose, unneeded
from goqueue.backup.running import Work, at_work, marked


class Removed(NamedTuple):
    """`beside` are backups that were being made: nothing but manifests is removed then."""

    objects: int
    bytes: int
    beside: list[str]


def plan_prune(catalogue: Catalogue, *, keep: int, since_ms: int | None) -> Prune:
    """A manifest that cannot be read stops this: nobody knows what it needs."""
    try:
        taken_at_ms = {manifest.id: manifest.taken_at_ms for manifest in catalogue.manifests()}
    except BackupTooNew:
        raise
    except BackupDamaged as error:
        raise BackupFailed(
            f"{error.message}; nothing was removed, for nobody knows which objects it needs. "
            f"Remove its manifest below {catalogue.store.address}/backups, and prune again"
        ) from error
    return choose(taken_at_ms, keep=keep, since_ms=since_ms)


def remove(catalogue: Catalogue, chosen: Prune) -> Removed:
    with marked(catalogue.store, new_backup_id(datetime.now(UTC)), Work.PRUNE) as mark:
        beside = at_work(catalogue.store, Work.CREATE, now_ms=time.time_ns() // 1_000_000)
        for backup in chosen.removed:
            catalogue.remove(backup)
        if beside:
            return Removed(0, 0, beside)
        stored = catalogue.objects()
        # What was made since the plan is kept as well.
        kept = list(catalogue.manifests())
        freed = objects = 0
        for sha in unneeded(stored, kept):
            mark.check()
            catalogue.remove_object(sha)
            objects += 1
            freed += stored[sha]
    return Removed(objects, freed, [])
