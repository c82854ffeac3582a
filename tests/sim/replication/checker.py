"""What must hold at every step, whatever fails.

Physics is excused: a record that was destroyed on as many disks as had to hold it, by lost power or
a lost disk, may be gone. A record that a broker threw away itself may not.
"""

from collections.abc import Callable

from goqueue.metadata.store import Event
from goqueue.model.replication import Member, PartitionState
from tests.sim.replication.disk import Record, SimLog


class Violation(AssertionError):
    pass


class Checker:
    """One partition's history as an outsider sees it."""

    def __init__(self) -> None:
        self.leaders: dict[int, tuple[int, int]] = {}
        self.committed: list[Record] = []
        # For each committed offset: under which epoch it was, and how many had to have it.
        self._epochs: list[int] = []
        self._needed: list[int] = []
        self._needed_max = 0
        # Whose disks physically lost a record.
        self._destroyed: dict[tuple[int, Record], set[int]] = {}
        self._written: dict[tuple[int, int], int] = {}

    def leads(self, node: int, broker_epoch: int, leader_epoch: int, log: SimLog) -> None:
        """A broker became leader: alone in its epoch, with everything that was committed before.

        One that hears of its election late lacks what a later leader committed; it can commit
        nothing itself.
        """
        other = self.leaders.setdefault(leader_epoch, (node, broker_epoch))
        if other != (node, broker_epoch):
            raise Violation(f"epoch {leader_epoch} is led by {other} and {(node, broker_epoch)}")
        for offset, record in enumerate(self.committed):
            if self._epochs[offset] >= leader_epoch:
                continue
            if offset >= log.end or log.records[offset] != record:
                if not self._is_excused(offset):
                    found = log.records[offset] if offset < log.end else None
                    raise Violation(
                        f"leader {node} of epoch {leader_epoch} has {found} at {offset}, "
                        f"committed was {record}"
                    )
                self._forget_from(offset)
                return

    def shown(
        self, node: int, log: SimLog, since: int, watermark: int, epoch: int, quorum: int
    ) -> None:
        """A replica serves what lies below its high watermark: always the same records."""
        if watermark > log.end:
            raise Violation(f"broker {node} shows {watermark}, its log ends at {log.end}")
        for offset in range(since, min(watermark, len(self.committed))):
            if log.records[offset] != self.committed[offset]:
                if not self._is_excused(offset):
                    raise Violation(
                        f"broker {node} shows {log.records[offset]} at {offset}, "
                        f"before it was {self.committed[offset]}"
                    )
                self._forget_from(offset)
                break
        if watermark > (count := len(self.committed)):
            self.committed += log.records[count:watermark]
            self._epochs += [epoch] * (watermark - count)
            self._needed += [quorum] * (watermark - count)
            self._needed_max = max(self._needed_max, quorum)

    def acts(self, node: int, log: SimLog, since: int, end: int) -> None:
        """A leader does what records ask for, such as to send what is due: it cannot undo it."""
        for offset in range(since, end):
            if offset >= len(self.committed) or self.committed[offset] != log.records[offset]:
                raise Violation(f"leader {node} acts on {offset}, which is not committed")

    def begins(self, node: int, log: SimLog) -> None:
        """A broker starts on what it finds beside its log."""
        if not log.fits_its_snapshot():
            raise Violation(f"broker {node} begins with a snapshot of another log: {log.snapshot}")

    def halts(self, node: int, log: SimLog, cut_at: int) -> None:
        """A broker would rather stop than cut there: right, if what it holds was lost for good."""
        if cut_at < len(self.committed) and self.committed[cut_at] == log.records[cut_at]:
            raise Violation(f"broker {node} is asked to cut at {cut_at}, which is committed")

    def changes(self, event: Event, is_draining: Callable[[Member], bool]) -> None:
        """Who is about to leave joins no more: others would wait for it. It may lead where nobody
        else can."""
        state: PartitionState = event.kv.value  # type: ignore[assignment]
        before: PartitionState = event.prev.value  # type: ignore[assignment, union-attr]
        self._needs(state.quorum)
        if len(state.in_sync) > len(before.in_sync):
            known = {member.node for member in before.in_sync}
            for member in state.in_sync:
                joins = member.node not in known and member.node != state.leader
                if joins and is_draining(member):
                    raise Violation(f"{member} joins, and is about to leave")

    def _needs(self, quorum: int) -> None:
        """A lower minimum is a weaker promise, also for what was committed before."""
        if self._needed_max > quorum:
            self._needed = [min(needed, quorum) for needed in self._needed]
            self._needed_max = quorum

    def destroyed(self, node: int, log: SimLog, start: int) -> None:
        """Power or a disk was lost, and with it the records of one broker from `start` on."""
        for offset in range(start, log.end):
            self._destroyed.setdefault((offset, log.records[offset]), set()).add(node)

    def stored(self, node: int, offset: int, record: Record) -> None:
        """The same epoch and offset is the same record everywhere; one lost may come back."""
        value = self._written.setdefault((record[0], offset), record[1])
        if value != record[1]:
            raise Violation(f"offset {offset} of epoch {record[0]} is {value} and {record[1]}")
        if (offset, record) in self._destroyed:
            self._destroyed[offset, record].discard(node)

    def _is_excused(self, offset: int) -> bool:
        lost_by = self._destroyed.get((offset, self.committed[offset]), ())
        return len(lost_by) >= self._needed[offset]

    def _forget_from(self, offset: int) -> None:
        del self.committed[offset:]
        del self._epochs[offset:]
        del self._needed[offset:]
