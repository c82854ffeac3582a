"""The bound on bytes a second."""

from goqueue.backup.rate import Rate


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_no_more_than_the_bound_is_taken() -> None:
    clock = Clock()
    rate = Rate(1_000, clock=clock, sleep=clock.sleep)
    for _ in range(10):
        rate.take(500)
    # The last one has yet to be paid for.
    assert clock.now == 4.5


def test_what_was_not_used_is_not_saved_up() -> None:
    clock = Clock()
    rate = Rate(1_000, clock=clock, sleep=clock.sleep)
    clock.now = 100.0
    rate.take(1_000)
    rate.take(1_000)
    assert clock.now == 101.0


def test_without_a_bound_nobody_waits() -> None:
    clock = Clock()
    Rate(None, clock=clock, sleep=clock.sleep).take(10**12)
    assert clock.now == 0.0
