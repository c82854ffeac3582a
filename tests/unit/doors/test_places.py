"""Who has a place at a door, and who loses it when all are taken."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.doors.places import UNKNOWN_MIN, UNKNOWN_PART, Places

LIMIT = 2 * UNKNOWN_PART
SPARE = UNKNOWN_MIN


class Door:
    def __init__(self) -> None:
        self.gone: list[str] = []
        self.busy: set[str] = set()
        self.places: Places[str] = Places(
            LIMIT, worth=lambda each: (each in self.busy, 0.0), hang_up=self.gone.append
        )

    def connect(self, name: str, party: str = "") -> None:
        self.places.take(name)
        if party:
            self.places.known(name, party)


def test_who_has_most_makes_room_by_one_that_is_idle() -> None:
    door = Door()
    for number in range(LIMIT - 1):
        door.connect(f"acme-{number}", "acme@")
    door.connect("zeta", "zeta@")
    door.busy = {"acme-0", "acme-1"}
    door.connect("new", "root")
    assert door.gone == ["acme-2"]
    assert len(door.places) == LIMIT


def test_where_its_own_party_has_most_the_newcomer_goes() -> None:
    """And not one that is there, whose client would come again."""
    door = Door()
    door.connect("zeta", "zeta@")
    for number in range(LIMIT + 5):
        door.connect(f"acme-{number}", "acme@")
    assert door.gone == [f"acme-{number}" for number in range(LIMIT - 1, LIMIT + 5)]


def test_those_who_do_not_log_in_push_out_each_other_and_nobody_else() -> None:
    door = Door()
    for number in range(LIMIT):
        door.connect(f"acme-{number}", "acme@")
    for number in range(10 * LIMIT):
        door.connect(f"unknown-{number}")
    assert door.gone == [f"unknown-{number}" for number in range(10 * LIMIT - SPARE)]


def test_where_nobody_is_known_the_oldest_gives_way_to_those_who_may_log_in() -> None:
    door = Door()
    for number in range(LIMIT):
        door.connect(f"unknown-{number}")
    door.connect("alice", "alice")
    assert door.gone == ["unknown-0"]


def test_who_left_is_not_there_any_more() -> None:
    door = Door()
    door.connect("one", "acme@")
    door.places.known("one", "zeta@")
    door.places.leave("one")
    door.places.leave("one")
    door.places.known("one", "acme@")
    assert len(door.places) == 0


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.booleans()), max_size=200))
def test_a_small_one_is_never_pushed_out(steps: list[tuple[str, bool]]) -> None:
    door = Door()
    door.connect("small", "small")
    for number, (party, leaves) in enumerate(steps):
        door.connect(f"{party}-{number}", party)
        if leaves:
            door.places.leave(f"{party}-{number - 1}")
        assert len(door.places) <= LIMIT + SPARE
    assert "small" not in door.gone
