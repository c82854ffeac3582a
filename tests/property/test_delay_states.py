"""The table of the states of delayed messages says all that happens to them, and nothing else."""

from hypothesis import given, settings

from goqueue.state.delays.records import (
    Abandoned,
    Cancelled,
    Delivered,
    Dropped,
    Restarted,
    Scheduled,
    TargetKey,
)
from goqueue.state.delays.states import ENDED, MOVES, WAITING, DelayState
from tests.property.test_delay_model import (
    HOT_UNTIL_MS,
    NOW_MS,
    STEPS,
    TARGETS,
    Item,
    World,
)

SOON_MS = NOW_MS + 10
FAR_MS = HOT_UNTIL_MS + 10


class WatchedWorld(World):
    """Compares what every note and message does with the table."""

    def __init__(self) -> None:
        self.ended: set[int] = set()
        self.seen: set[tuple[type, DelayState]] = set()
        super().__init__()

    def states(self) -> dict[int, DelayState]:
        found = {
            number: DelayState.NEAR if number in self.machine.pending else DelayState.FAR
            for number, *_ in self._all_pending()
        }
        # What is sent stands in no note, so that the machine takes it for claimed.
        return found | dict.fromkeys(self.machine.claimed, DelayState.CLAIMED)

    def write(self, item: Item) -> None:
        before = self.states()
        stays = self._named_again(item)
        super().write(item)
        after = self.states()
        mover = Scheduled if isinstance(item, tuple) else type(item)
        for number in before.keys() | after.keys():
            was, now = before.get(number), after.get(number)
            if was is None:
                assert isinstance(item, tuple)
                assert number not in self.ended, "nothing comes back"
                assert now in WAITING
                assert (now is DelayState.NEAR) == (item[0].due_ms < HOT_UNTIL_MS)
            elif was is not now or number in stays:
                expected = MOVES[mover][was]
                assert now is expected or (now is None and expected in ENDED)
                self.seen.add((mover, was))
                if now is None:
                    self.ended.add(number)

    def _named_again(self, item: Item) -> set[int]:
        """Messages that an item is about and leaves in their state."""
        if isinstance(item, tuple):
            return {item[0].number}
        if isinstance(item, Restarted):
            restarted = self.machine.target_number(TargetKey(item.topic_id, item.partition))
            claims = self.machine.targets[restarted].claims
            return {number for claim in claims for number in claim.numbers}
        return set()

    def index_step(self) -> None:
        before = self.states()
        super().index_step()
        assert self.states() == before

    def index_fails(self) -> None:
        before = self.states()
        super().index_fails()
        assert self.states() == before


@settings(max_examples=300)
@given(STEPS)
def test_messages_move_by_the_table_only(steps: list[tuple[object, ...]]) -> None:
    world = WatchedWorld()
    for name, *arguments in steps:
        getattr(world, str(name))(*arguments)


def test_every_line_of_the_table_happens() -> None:
    world = WatchedWorld()
    near, far, claimed = TARGETS[0], TARGETS[2], TARGETS[4]
    machine = world.machine
    for target, due_ms in ((near, SOON_MS), (far, FAR_MS), (claimed, SOON_MS), (claimed, SOON_MS)):
        world.schedule(target, due_ms, 2)
    for number in (0, 2):
        entry = machine.find(number)
        assert entry is not None
        key = machine.targets[entry.target].key
        world.write((Scheduled(number, entry.due_ms, key, 0), len(world.log), entry.size_bytes))
        world.write(Cancelled(*key, number, entry.due_ms, entry.size_bytes))
    # A replay after the clock was set back takes for far what was near when it was claimed.
    world.schedule(claimed, FAR_MS, 1)
    for numbers in ([4, 5], [8]):
        [note] = machine.claim(machine.target_number(claimed), [numbers])
        world.write(note)
    world.write(Restarted(*claimed, 8))
    world.write(Delivered(*claimed, 2))
    # The first messages of groups whose ends never came.
    for due_ms in (SOON_MS, FAR_MS):
        world.write((Scheduled(machine.next_number, due_ms, near, 1), len(world.log), 100))
        world.write(Abandoned())
    for target in (near, far, claimed):
        world.write(Dropped(target.topic_id))
    assert world.states() == {}
    written_down = {
        (mover, state)
        for mover, moves in MOVES.items()
        for state in moves
        if state is not DelayState.SENT
    }
    assert world.seen == written_down


def test_nothing_leaves_an_end() -> None:
    assert all(ENDED.isdisjoint(moves) for moves in MOVES.values())
    reached = {state for moves in MOVES.values() for state in moves.values()}
    assert reached >= ENDED
