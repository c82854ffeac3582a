"""When a worker that died is started again."""

from goqueue.server.workers.restarts import DEATHS_MAX, WAIT_MAX_S, WELL_S, Restarts


def test_the_first_death_costs_no_time_and_further_ones_more_and_more() -> None:
    restarts = Restarts()
    waits = [restarts.after_death(1.0) for _ in range(DEATHS_MAX - 1)]
    assert waits[0] == 0
    assert None not in waits
    assert waits == sorted(waits, key=lambda wait: wait or 0.0)
    assert waits[-1] == WAIT_MAX_S


def test_one_that_dies_over_and_over_is_given_up() -> None:
    restarts = Restarts()
    waits = [restarts.after_death(0.0) for _ in range(DEATHS_MAX)]
    assert waits[-1] is None
    assert restarts.deaths == DEATHS_MAX


def test_one_that_served_well_begins_anew() -> None:
    restarts = Restarts()
    for _ in range(5 * DEATHS_MAX):
        assert restarts.after_death(1.0) is not None
        assert restarts.after_death(WELL_S) == 0
