"""The timer wheel against a sorted list."""

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.state.delays.pending import Entry, PendingTable
from goqueue.state.delays.wheel import HORIZON_MS, TICK_MS, TimerWheel

DELAYS_MS = st.one_of(
    st.integers(-1_000, 3_000),
    st.integers(0, 200_000),
    st.integers(0, HORIZON_MS),
    st.integers(HORIZON_MS - 100_000, 4 * HORIZON_MS),
    st.just(10**17),
    # Around the turns of each level.
    st.builds(
        lambda turn, off: turn + off,
        st.sampled_from([2560, 163_840, 10_485_760]),
        st.integers(-30, 30),
    ),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), DELAYS_MS),
        st.tuples(st.just("remove"), st.integers(0, 1_000)),
        st.tuples(st.just("advance"), DELAYS_MS.filter(lambda delay: delay >= 0)),
        st.tuples(st.just("set back"), st.integers(0, HORIZON_MS)),
        st.tuples(st.just("advance a little"), st.integers(0, 50)),
    ),
    max_size=60,
)


@settings(max_examples=400)
@given(STEPS, st.integers(0, 2**26 * TICK_MS * 3))
def test_what_falls_due_is_what_a_sorted_list_says(
    steps: list[tuple[str, int]], start_ms: int
) -> None:
    table = PendingTable(start_ms)
    now_ms = start_ms
    waiting: dict[int, int] = {}
    number = 0
    for step, amount in steps:
        if step == "add":
            waiting[number] = now_ms + amount
            table.add(Entry(number, now_ms + amount, number % 7, number * 3, 100))
            number += 1
        elif step == "remove" and waiting:
            gone = sorted(waiting)[amount % len(waiting)]
            entry = table.remove(gone)
            assert entry == Entry(gone, waiting.pop(gone), gone % 7, gone * 3, 100)
            assert table.remove(gone) is None
        elif step == "set back":
            now_ms = max(0, now_ms - amount)
            table.wheel.rewind(now_ms)
        elif step.startswith("advance"):
            now_ms += amount
            due = []
            while popped := table.pop_due(now_ms, limit=3):
                due += popped
            # Two ticks of room: what was late when it came, or came on a turn, waits for the next.
            sure = {n for n, due_ms in waiting.items() if due_ms <= now_ms - 2 * TICK_MS}
            if amount < 2 * TICK_MS:
                sure = set()
            assert sure <= set(due)
            assert all(waiting[n] <= now_ms for n in due)
            in_time = [n for n in due if waiting[n] > table.wheel.now_ms - amount]
            assert in_time == sorted(in_time, key=lambda n: (waiting[n], n))
            for popped_number in due:
                table.remove(popped_number)
                del waiting[popped_number]
        assert set(table) == set(waiting)
        earliest = table.wheel.earliest_due_ms()
        assert (earliest is None) == (not waiting)
        if waiting:
            assert earliest is not None
            assert earliest <= min(waiting.values())


@settings(max_examples=100)
@given(
    st.lists(DELAYS_MS.filter(lambda delay: 0 < delay < 10 * HORIZON_MS), min_size=1, max_size=20)
)
def test_a_sleeper_that_trusts_next_stop_misses_nothing(delays_ms: list[int]) -> None:
    start_ms = 1_700_000_000_000
    arrivals = array("q", range(len(delays_ms)))
    wheel = TimerWheel(start_ms, arrivals)
    for timer, delay_ms in enumerate(delays_ms):
        wheel.add(timer, start_ms + delay_ms)
    fired: list[int] = []
    stops = 0
    while (stop_ms := wheel.next_stop_ms()) is not None:
        stops += 1
        for timer in wheel.pop_due(stop_ms, limit=1_000):
            assert 0 <= stop_ms - (start_ms + delays_ms[timer]) < TICK_MS
            fired.append(timer)
    assert fired == sorted(range(len(delays_ms)), key=lambda t: (delays_ms[t], t))
    # Each timer moves down a level at a time; only far ones see whole turns go by.
    assert stops <= 5 * len(delays_ms) + 11
