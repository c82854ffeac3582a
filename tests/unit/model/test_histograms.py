"""Counts per bucket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.measuring.histograms import LATENCY_BOUNDS_SECONDS, Histogram, Histograms


@given(st.lists(st.floats(0, 100) | st.sampled_from(LATENCY_BOUNDS_SECONDS)))
def test_a_histogram_counts_what_is_at_or_below_each_bound(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)

    figures = histogram.figures()

    assert figures.sum == pytest.approx(sum(values))
    assert sum(figures.counts) == len(values)
    for position, bound in enumerate(figures.bounds):
        at_or_below = sum(value <= bound for value in values)
        assert sum(figures.counts[: position + 1]) == at_or_below


def test_figures_do_not_change_any_more() -> None:
    histogram = Histogram((1.0,))
    figures = histogram.figures()
    histogram.observe(0.5)
    assert list(figures.counts) == [0, 0]


def test_histograms_by_name_are_made_on_first_use() -> None:
    histograms = Histograms()
    histograms["Produce"].observe(0.1)
    histograms["Produce"].observe(0.1)
    assert {name: sum(each.figures().counts) for name, each in histograms.items()} == {"Produce": 2}
