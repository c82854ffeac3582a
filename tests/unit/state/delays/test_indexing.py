"""What the index takes over is what waited when it began to, whatever comes meanwhile.

What comes meanwhile may be cut off the log when another node leads: a message whose cancellation
was cut off must not be missing in the index.
"""

from array import array
from uuid import UUID

from goqueue.state.delays.machine import DelayMachine
from goqueue.state.delays.pending import Entry
from goqueue.state.delays.records import Cancelled, Claimed, Delivered, Scheduled, TargetKey

TARGET = TargetKey(UUID(int=7), 0)
DUE_MS = 1_000
SIZE_BYTES = 100
COUNT = 5
WAITING = [Entry(number, DUE_MS, 0, number, SIZE_BYTES) for number in range(COUNT)]


def machine_with_messages() -> DelayMachine:
    machine = DelayMachine(now_ms=0, hot_until_ms=1_000_000)
    for number in range(COUNT):
        machine.replay_scheduled(Scheduled(number, DUE_MS, TARGET, 0), number, SIZE_BYTES)
    return machine


def rows(machine: DelayMachine, numbers: "array[int]") -> list[Entry]:
    fields = machine.near_rows(numbers)
    return sorted(Entry(*fields[at : at + 5]) for at in range(0, len(fields), 5))


def change_all(machine: DelayMachine) -> None:
    """One is cancelled, one delivered, one on its way, one written again, one as it was."""
    machine.replay(Cancelled(*TARGET, 0, DUE_MS, SIZE_BYTES))
    machine.replay(Claimed(*TARGET, 9, 0, array("q", [1]).tobytes()))
    machine.replay(Delivered(*TARGET, 1))
    machine.replay(Claimed(*TARGET, 9, 1, array("q", [2]).tobytes()))
    machine.replay_scheduled(Scheduled(3, DUE_MS, TARGET, 0), 77, SIZE_BYTES)


def test_what_changes_meanwhile_is_taken_over_as_it_was() -> None:
    machine = machine_with_messages()
    work = machine.begin_indexing()
    change_all(machine)
    assert rows(machine, work.numbers) == WAITING
    machine.end_indexing(work, succeeded=True)
    # The next time it is told what came.
    later = machine.begin_indexing()
    assert (later.settled, later.moved) == ({0, 1}, {3})
    assert rows(machine, array("q", later.moved)) == [Entry(3, DUE_MS, 0, 77, SIZE_BYTES)]


def test_after_a_failure_the_index_is_given_what_waits_by_then() -> None:
    machine = machine_with_messages()
    failed = machine.begin_indexing()
    change_all(machine)
    machine.end_indexing(failed, succeeded=False)
    again = machine.begin_indexing()
    moved = Entry(3, DUE_MS, 0, 77, SIZE_BYTES)
    assert rows(machine, again.numbers) == [WAITING[2], moved, WAITING[4]]
    assert again.size_bytes == (COUNT + 1) * SIZE_BYTES
