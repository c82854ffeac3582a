"""The heap of deadlines that all state machines use."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.state.machine import Deadlines


def test_the_earliest_comes_first_and_ties_in_order_of_setting() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("late", 30)
    deadlines.set("first", 10)
    deadlines.set("second", 10)
    assert deadlines.next_ms() == 10
    assert deadlines.pop_due(9, 100) == []
    assert deadlines.pop_due(10, 100) == ["first", "second"]
    assert deadlines.next_ms() == 30
    assert "late" in deadlines
    assert "first" not in deadlines


def test_at_most_limit_keys_are_popped_at_once() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for key in range(10):
        deadlines.set(key, key)
    assert deadlines.pop_due(100, 3) == [0, 1, 2]
    assert deadlines.next_ms() == 3


def test_heartbeats_do_not_grow_the_heap() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for now_ms in range(0, 1_000_000, 1_000):
        for member in range(10):
            deadlines.set(member, now_ms + 45_000)
    assert len(deadlines._heap) <= 2 * 10 + 64 + 1
    assert len(deadlines) == 10


def test_cancelled_deadlines_do_not_pile_up() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for key in range(10_000):
        deadlines.set(key, 1_000_000 + key)
        deadlines.cancel(key)
    assert len(deadlines._heap) <= 64 + 1
    assert deadlines.next_ms() is None


Steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 5), st.integers(0, 60)),
        st.tuples(st.just("if-absent"), st.integers(0, 5), st.integers(0, 60)),
        st.tuples(st.just("cancel"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("pop"), st.integers(1, 3), st.integers(0, 60)),
    ),
    max_size=200,
)


@given(Steps)
def test_it_behaves_like_a_plain_dictionary(steps: list[tuple[str, int, int]]) -> None:
    deadlines: Deadlines[int] = Deadlines()
    model: dict[int, int] = {}
    for word, key, at_ms in steps:
        if word == "set":
            deadlines.set(key, at_ms)
            model[key] = at_ms
        elif word == "if-absent":
            deadlines.set_if_absent(key, at_ms)
            model.setdefault(key, at_ms)
        elif word == "cancel":
            deadlines.cancel(key)
            model.pop(key, None)
        else:
            popped = deadlines.pop_due(at_ms, key)
            due = sorted(model[k] for k in model if model[k] <= at_ms)[:key]
            assert [model.pop(k) for k in popped] == due
        assert deadlines.next_ms() == min(model.values(), default=None)
        assert len(deadlines) == len(model)
        assert all(deadlines.get(k) == model.get(k) for k in range(6))
