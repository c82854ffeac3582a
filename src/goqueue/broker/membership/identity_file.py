"""What a data folder knows of its past as a node of a cluster (`state/membership/identity.py`)."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self
from uuid import UUID, uuid4

import msgspec

from goqueue.model.errors import DataDirectoryError
from goqueue.model.names import NodeId
from goqueue.state.membership.identity import NodeIdentity, admitted, begun, harmed, stopped
from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import DamagedFile, load, save

# It changes when the machine starts, so that a killed process is told from a power cut.
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    node_id: NodeId
    identity: NodeIdentity


class IdentityFile:
    """Every change is on disk before it counts: who calls blocks for an fsync. For any thread."""

    def __init__(self, disk: Disk, path: Path, node_id: NodeId, identity: NodeIdentity) -> None:
        self._disk = disk
        self._path = path
        self._node_id = node_id
        self.identity = identity
        self._changing = threading.Lock()

    @classmethod
    def open(cls, disk: Disk, path: Path, node_id: NodeId) -> Self:
        """The folder's identity; a new one where there is none."""
        try:
            content = load(disk, path, _Content)
        except DamagedFile as error:
            raise DataDirectoryError(
                f"{error}; without it nobody knows what the logs here are worth: restore the file "
                "from a copy, or delete it to join as a new disk that the others fill again"
            ) from error
        if content is None:
            return cls(disk, path, node_id, NodeIdentity(directory=uuid4()))
        if content.node_id != node_id:
            raise DataDirectoryError(
                f"{path.parent} is the data directory of node {content.node_id}, not of node "
                f"{node_id}; start it with --node-id {content.node_id}, or give another --data-dir"
            )
        return cls(disk, path, node_id, content.identity)

    @property
    def incarnation(self) -> UUID:
        return self.identity.incarnation

    def begin(self, *, has_lost: bool) -> None:
        """A process starts on the folder; before it registers."""
        boot = _BOOT_ID.read_text().strip()
        self._change(lambda identity: begun(identity, uuid4(), boot, has_lost=has_lost))

    def admit(self) -> None:
        """Before leading or following anything."""
        self._change(admitted)

    def harm(self) -> None:
        """When a log failed."""
        self._change(harmed)

    def stop(self) -> None:
        """When everything is on disk."""
        self._change(stopped)

    def _change(self, change: Callable[[NodeIdentity], NodeIdentity]) -> None:
        with self._changing:
            identity = change(self.identity)
            save(self._disk, self._path, _Content(node_id=self._node_id, identity=identity))
            self.identity = identity
