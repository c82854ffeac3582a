"""What a broker's data folder knows of its past, and what its next registration says of it.

A broker may keep its places in the in-sync sets after a restart only if its logs still hold what
they held when it was admitted last. Four things can break that: memory that was lost with the
power, a disk that refused what it was to keep, a folder that is another one, and a folder that is
an older copy of itself. The folder keeps a trail against the last: every incarnation is noted in it
*before* it registers, so that a folder which does not know the incarnation that was admitted last
is not the folder that one ran on.
"""

from enum import Enum
from typing import Final
from uuid import UUID

import msgspec

from goqueue.model.membership import FEATURE_LEVEL, NodeRecord, Registration

# A folder that begins this often without being admitted once loses its continuity, not its data.
TRAIL_MAX: Final = 64


class NodeIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Kept in the data folder. Each function below returns what to make durable before going on."""

    directory: UUID
    # The incarnation admitted last, and all that began after it.
    trail: tuple[UUID, ...] = ()
    boot: str = ""
    # Whether the logs hold all that they held when the first of the trail was admitted.
    is_kept: bool = True
    is_stopped: bool = True
    # A log failed under the process that runs, or ran last.
    is_harmed: bool = False

    @property
    def incarnation(self) -> UUID:
        return self.trail[-1]


class Continuity(Enum):
    """What a registered broker still has of what it had when it was admitted last."""

    # Everything: a clean stop, or a killed process whose page cache survived.
    KEPT = "kept"
    # What was on disk: the power was cut, or a sync failed.
    ON_DISK = "on disk"
    # Nothing that can be relied on: another folder, an older copy of this one, or damage.
    NOTHING = "nothing"


def begun(
    identity: NodeIdentity, incarnation: UUID, boot: str, *, has_lost: bool = False
) -> NodeIdentity:
    """A process starts on the folder. Make it durable before registering.

    `has_lost`: recovery cut more from a log than one unfinished batch. After a power cut that is
    what was not on disk yet; without one it was, and no sync is worth anything.
    """
    memory_survived = identity.is_stopped or identity.boot == boot
    is_damaged = has_lost and memory_survived
    trail = (incarnation,) if is_damaged else (*identity.trail, incarnation)
    if len(trail) > TRAIL_MAX:
        trail = (trail[0], *trail[-(TRAIL_MAX - 1) :])
    return msgspec.structs.replace(
        identity,
        trail=trail,
        boot=boot,
        is_kept=identity.is_kept and memory_survived and not (has_lost or identity.is_harmed),
        is_stopped=False,
        is_harmed=False,
    )


def admitted(identity: NodeIdentity) -> NodeIdentity:
    """The cluster knows this incarnation. Make it durable before leading or following."""
    return msgspec.structs.replace(identity, trail=(identity.incarnation,), is_kept=True)


def stopped(identity: NodeIdentity) -> NodeIdentity:
    """Everything is on disk. What was lost before this incarnation stays lost."""
    return msgspec.structs.replace(identity, is_stopped=True)


def harmed(identity: NodeIdentity) -> NodeIdentity:
    """A log failed. The kernel may have dropped what it was to write, of which others were told
    that it is here; who opens the log next finds less, and nothing that is damaged."""
    return msgspec.structs.replace(identity, is_harmed=True)


def registration(identity: NodeIdentity, *, is_cordoned: bool = False) -> Registration:
    return Registration(
        directory=identity.directory,
        trail=identity.trail,
        is_kept=identity.is_kept and not identity.is_harmed,
        is_cordoned=is_cordoned,
        feature_level=FEATURE_LEVEL,
    )


def continuity(registered: Registration, known: NodeRecord | None) -> Continuity:
    if (
        known is None
        or known.directory != registered.directory
        or known.incarnation not in registered.trail
    ):
        return Continuity.NOTHING
    return Continuity.KEPT if registered.is_kept else Continuity.ON_DISK
