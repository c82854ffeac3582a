"""What happens again and again is told once a minute, with the right count."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.audit import REFUSAL, Outcome, Sameness
from goqueue.model.caller import Door, Principal
from goqueue.state.audit.gathering import OTHERS, Gathered, Gathering


def refusal(name: str, address: str = "10.0.0.1") -> Sameness:
    alice = Principal("User", "alice")
    return Sameness(REFUSAL, Outcome.REFUSED, alice, Door.KAFKA, address, "topic", name, "read")


def test_the_first_is_told_at_once_and_the_others_when_the_minute_is_over() -> None:
    gathering = Gathering(window_ms=60_000)
    assert gathering.seen(refusal("orders"), 1_000) == Gathered(refusal("orders"), 1, 1_000)
    for now_ms in range(2_000, 50_000, 1_000):
        assert gathering.seen(refusal("orders"), now_ms) is None
    assert gathering.due(60_999) == []
    assert gathering.due(61_000) == [Gathered(refusal("orders"), 48, 49_000)]
    # Another minute has begun, at whose end there is nothing to tell.
    assert gathering.seen(refusal("orders"), 61_001) is None
    assert gathering.due(121_000) == [Gathered(refusal("orders"), 1, 61_001)]
    assert gathering.due(181_000) == []
    assert gathering.seen(refusal("orders"), 181_001) is not None


def test_each_principal_resource_verb_and_address_counts_by_itself() -> None:
    gathering = Gathering()
    assert gathering.seen(refusal("a"), 0) is not None
    assert gathering.seen(refusal("b"), 0) is not None
    assert gathering.seen(refusal("a", "10.0.0.2"), 0) is not None
    assert gathering.seen(refusal("a")._replace(verb="write"), 0) is not None
    assert gathering.seen(refusal("a"), 0) is None


def test_too_many_different_ones_are_counted_without_their_names() -> None:
    gathering = Gathering(kinds_max=2)
    for name in ("a", "b"):
        assert gathering.seen(refusal(name), 0) is not None
    told = gathering.seen(refusal("c"), 0)
    assert told is not None
    assert (told.what.name, told.what.address, told.what.verb) == (OTHERS,) * 3
    for number in range(100):
        assert gathering.seen(refusal(f"more-{number}"), 1) is None
    [rest] = gathering.rest()
    assert rest.count == 100
    assert gathering.rest() == []


def test_who_asked_is_told_of_too_many_things_too() -> None:
    """One who asks for many things hides neither itself nor others by it."""
    gathering = Gathering(kinds_max=2, principals_max=2)
    for name in ("a", "b", "c", "d"):
        gathering.seen(refusal(name), 0)
    mallory = refusal("e")._replace(principal=Principal("User", "mallory"))
    told = gathering.seen(mallory, 1)
    assert told is not None
    assert (told.what.principal.name, told.what.name) == ("mallory", OTHERS)
    assert gathering.seen(refusal("f"), 1) is None
    # The room for principals has an end, too.
    for name in ("x", "y"):
        late = gathering.seen(refusal("g")._replace(principal=Principal("User", name)), 2)
        assert late is None or late.what.principal.name == OTHERS
    counts = {each.what.principal.name: each.count for each in gathering.rest()}
    assert counts == {"alice": 2, OTHERS: 1}


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 40_000)), max_size=200))
def test_nothing_is_lost_and_nothing_told_twice_a_minute(steps: list[tuple[str, int]]) -> None:
    gathering = Gathering(window_ms=60_000, kinds_max=4)
    told: list[tuple[Sameness, int]] = []
    counted = now_ms = 0
    for name, passed_ms in steps:
        now_ms += passed_ms
        for due in gathering.due(now_ms):
            told.append((due.what, now_ms))
            counted += due.count
        seen = gathering.seen(refusal(name), now_ms)
        if seen is not None:
            told.append((seen.what, now_ms))
            counted += seen.count
    counted += sum(each.count for each in gathering.rest())
    assert counted == len(steps)
    last: dict[Sameness, int] = {}
    for what, at_ms in told:
        assert what not in last or at_ms - last[what] >= 60_000
        last[what] = at_ms
