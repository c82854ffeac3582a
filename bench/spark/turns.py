"""Contestants one after the other, round by round, for the machine changes in between."""

from collections.abc import Callable, Mapping

from bench.rounds import say

# contestant -> seconds of each round
Times = dict[str, list[float]]


def take_turns(contestants: Mapping[str, Callable[[], float]], rounds: int) -> Times:
    """After one round to warm up, which is not counted."""
    times: Times = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, run in contestants.items():
            seconds = run()
            say(f"  {name}: {seconds:.2f} s" + (" (warm-up)" if number == 0 else ""))
            if number:
                times[name].append(seconds)
    return times
