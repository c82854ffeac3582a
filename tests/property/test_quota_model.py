"""Whoever waits as told uses no more than its quota, and everybody gets something."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.caller import Principal
from goqueue.model.security.quotas import Quota, QuotaKind
from goqueue.state.quotas.bucket import DEBT_MAX_S, Bucket
from goqueue.state.quotas.ledger import Ledger, Windows

rates = st.floats(min_value=0.5, max_value=1e9)
# In seconds of the quota, so that every rate sees small and large ones.
amounts = st.lists(st.floats(min_value=0, max_value=20), min_size=1, max_size=60)
pauses = st.integers(min_value=0, max_value=3_000)


@given(rates, amounts, st.data())
def test_over_time_no_more_than_the_rate_is_used(
    rate: float, uses: list[float], data: st.DataObject
) -> None:
    bucket = Bucket(rate, rate, 0)
    now_ms, used = 0, 0.0
    for seconds in uses:
        now_ms += data.draw(pauses)
        wait_ms = bucket.charge(seconds * rate, now_ms)
        used += seconds * rate
        assert wait_ms >= 0
        assert wait_ms <= DEBT_MAX_S * 1000 + 1
        now_ms += wait_ms
        # One second's worth at the start, then the rate.
        assert used <= rate * (1 + now_ms / 1000) * (1 + 1e-9) + 1e-6


@given(rates, amounts)
def test_who_waits_as_told_is_free_then_and_not_a_moment_earlier(
    rate: float, uses: list[float]
) -> None:
    bucket = Bucket(rate, rate, 0)
    now_ms = 0
    for seconds in uses:
        wait_ms = bucket.charge(seconds * rate, now_ms)
        if wait_ms > 2:
            assert bucket.wait_ms(now_ms + wait_ms - 2) > 0
        now_ms += wait_ms + 1
        assert bucket.wait_ms(now_ms) == 0


@given(rates, st.lists(st.tuples(pauses, st.floats(min_value=0, max_value=1e12))))
def test_nothing_is_ever_negative_and_no_debt_is_endless(
    rate: float, steps: list[tuple[int, float]]
) -> None:
    bucket = Bucket(rate, max(rate, 1), 0)
    now_ms = 0
    for pause_ms, amount in steps:
        now_ms += pause_ms
        assert 0 <= bucket.charge(amount, now_ms) <= ceil(DEBT_MAX_S * 1000) + 1
        assert bucket.used_per_s(now_ms) >= 0
    now_ms += ceil(DEBT_MAX_S * 1000) + 1
    assert bucket.wait_ms(now_ms) == 0


@given(st.lists(st.sampled_from("abc"), min_size=30, max_size=120), st.integers(1, 5))
def test_nobody_starves_by_what_others_use(turns: list[str], size: int) -> None:
    """Users with a quota each: what one may do does not depend on the others."""
    quota = Quota(user="", values={"producer_byte_rate": 10.0})

    def waits(only: str | None) -> list[int]:
        ledger = Ledger(Windows(1, 11))
        ledger.use({"": quota}, {})
        told = []
        for position, name in enumerate(turns):
            client = ledger.of_client(Principal("User", name), "", position * 50)
            assert client is not None
            if name == "a" or only is None:
                wait_ms = client.charge(QuotaKind.PRODUCED, size, position * 50)
                if name == "a":
                    told.append(wait_ms)
        return told

    assert waits(None) == waits("a")
