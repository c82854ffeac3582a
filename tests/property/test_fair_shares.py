"""How a table is divided among parties: nobody can take what is promised to another one."""

from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.fairness.belongings import Belongings
from goqueue.model.fairness.headcount import Headcount
from goqueue.model.fairness.shares import Shares

PARTIES = "abcd"
MOVES = st.lists(st.tuples(st.sampled_from(PARTIES), st.integers(-3, 5)), max_size=60)


@given(MOVES)
def test_a_headcount_counts(moves: list[tuple[str, int]]) -> None:
    held, plain = Headcount(), Counter[str]()
    for party, count in moves:
        count = max(count, -plain[party])
        held.add(party, count)
        plain[party] += count
        there = {party: count for party, count in plain.items() if count}
        assert {party: held[party] for party in held} == there
        assert len(held) == len(there)
        assert held.total == sum(there.values())
        assert held.beyond(2) == sum(max(0, count - 2) for count in there.values())
        for newcomer in (*PARTIES, "new"):
            loser = held.gives_way(newcomer)
            assert held[loser] == max(there.values(), default=0)
            if held[newcomer] == held[loser]:
                assert loser == newcomer


def test_of_several_that_have_most_the_one_that_had_it_first_gives_way() -> None:
    held = Headcount()
    for party in "abab":
        held.add(party)
    assert held.gives_way("new") == "a"
    held.remove("a")
    held.add("a")
    assert held.gives_way("new") == "b"


def test_full_tables_are_fair_in_the_end() -> None:
    """Whoever comes when one has everything ends with as many as the first."""
    held = Headcount()
    held.add("flood", 100)
    for _ in range(500):
        for newcomer in ("one", "flood", "two"):
            held.remove(held.gives_way(newcomer))
            held.add(newcomer)
    assert held.total == 100
    assert max(held[each] for each in held) - min(held[each] for each in held) <= 1


@given(st.lists(st.tuples(st.sampled_from(PARTIES), st.integers(0, 9), st.booleans())))
def test_belongings_stand_in_the_order_of_their_use(steps: list[tuple[str, int, bool]]) -> None:
    held: Belongings[tuple[str, int]] = Belongings()
    plain: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for party, number, is_used in steps:
        one, of_party = (party, number), plain[party]
        if one not in of_party:
            held.add(party, one)
        else:
            of_party.remove(one)
            (held.used if is_used else held.remove)(party, one)
            if not is_used:
                continue
        of_party.append(one)
        assert held.last(party) == one
        assert list(held.of(party)) == of_party
        assert held.first(party) == of_party[0]
        assert len(held) == sum(map(len, plain.values()))
        assert len(plain[held.gives_way("new")]) == max(map(len, plain.values()))
    assert held.first("new") is None


@given(
    capacity=st.integers(1, 60),
    reserve=st.integers(0, 3),
    moves=st.lists(
        st.tuples(st.sampled_from(PARTIES), st.integers(-3, 10), st.booleans()), max_size=80
    ),
    few=st.integers(1, 4),
)
def test_shares(capacity: int, reserve: int, moves: list[tuple[str, int, bool]], few: int) -> None:
    shares, held = Shares(capacity, min(reserve, capacity)), Headcount()
    room, of_administrators = capacity - shares.reserve, 0
    for party, count, administers_cluster in moves:
        party = PARTIES[PARTIES.index(party) % few]
        if count <= 0:
            held.remove(party, min(-count, held[party]))
            continue
        before = held.total
        if shares.may_add(party, held, few, count=count, administers_cluster=administers_cluster):
            held.add(party, count)
            of_administrators += count if administers_cluster else 0
        else:
            assert before + count > shares.is_free_below or before + count > room
        assert held.total <= capacity
        if not of_administrators:
            assert held.total <= room
            # Whatever all others did, each can still have what it is promised.
            for each in PARTIES[:few]:
                left = shares.promised(few) - held[each]
                assert left <= 0 or shares.may_add(each, held, few, count=left)


@given(st.integers(1, 1_000), st.integers(0, 10))
def test_one_party_alone_may_have_everything_but_the_reserve(capacity: int, reserve: int) -> None:
    shares, held = Shares(capacity, min(reserve, capacity)), Headcount()
    room = capacity - shares.reserve
    assert room == 0 or shares.may_add("", held, 1, count=room)
    assert not shares.may_add("", held, 1, count=room + 1)
    assert shares.may_add("", held, 1, count=capacity, administers_cluster=True)


def test_there_is_no_reserve_where_nobody_logs_in() -> None:
    assert Shares.secured(100, is_on=False) == Shares(100, 0)
    assert Shares.secured(100, is_on=True) == Shares(100, 5)
