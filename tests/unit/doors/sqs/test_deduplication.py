from hypothesis import given
from hypothesis import strategies as st

from goqueue.doors.sqs.deduplication import WINDOW_MS, DeduplicationWindow

SENDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, WINDOW_MS), st.booleans()), max_size=50
)


@given(SENDS)
def test_window_like_a_list_of_sends(sends: list[tuple[str, int, bool]]) -> None:
    """The window of an id begins with its first send and is not prolonged by later ones."""
    window: DeduplicationWindow[object] = DeduplicationWindow()
    taken: list[tuple[int, str, object]] = []
    now_ms = 0
    for key, later_ms, is_stored in sends:
        now_ms += later_ms
        known = [m for at, k, m in taken if k == key and at + WINDOW_MS > now_ms]
        assert window.find(key, now_ms) is (known[-1] if known else None)
        if known:
            continue
        message = object()
        window.take(key, message, now_ms)
        if is_stored:
            taken.append((now_ms, key, message))
        else:
            window.give_back(key, message)


def test_old_ids_take_no_room() -> None:
    window: DeduplicationWindow[str] = DeduplicationWindow()
    for n in range(1_000):
        window.take(str(n), "m", n)
    assert not window.is_full(WINDOW_MS + 999)
    assert len(window) == 0


def test_giving_back_leaves_a_later_message_alone() -> None:
    window: DeduplicationWindow[list[str]] = DeduplicationWindow()
    first, second = ["first"], ["second"]
    window.take("a", first, 0)
    window.take("a", second, 1)
    window.give_back("a", first)
    assert window.find("a", 2) is second
