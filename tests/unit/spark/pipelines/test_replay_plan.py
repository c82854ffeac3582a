"""The parts of a replay: every offset once, also over crashes."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.client.group_facts import PartitionKey
from goqueue.spark.pipelines.replay_plan import ReplayChanged, ReplayPlan

REQUEST = {"filter": ""}
ranges = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)),
    st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda each: (each[0], sum(each))),
    max_size=5,
)


@settings(deadline=None)
@given(wanted=ranges, sizes=st.lists(st.integers(1, 30), min_size=1), crashes=st.integers(0, 9))
def test_every_offset_once(
    tmp_path_factory: pytest.TempPathFactory,
    wanted: dict[PartitionKey, tuple[int, int]],
    sizes: list[int],
    crashes: int,
) -> None:
    path = tmp_path_factory.mktemp("plan") / "replay.json"
    plan = ReplayPlan.begin(REQUEST, wanted)
    plan.save(path)
    sent: dict[tuple[str, int], set[tuple[PartitionKey, int]]] = {}
    step = 0
    while not plan.is_done:
        if not plan.pending:
            plan.take_part(sizes[step % len(sizes)])
            plan.save(path)
        part = {
            (place, at) for place, (start, end) in plan.pending.items() for at in range(start, end)
        }
        # The broker takes a name once; another try of the name must be the same part.
        assert sent.setdefault((plan.id, plan.part_number), part) == part
        step += 1
        if step <= crashes:
            again = ReplayPlan.load(path, REQUEST)
            assert again is not None
            plan = again
            continue
        plan.finish_part(len(part))
        plan.save(path)
    everything = [each for part in sent.values() for each in part]
    assert len(everything) == len(set(everything))
    assert set(everything) == {
        (place, at) for place, (start, end) in wanted.items() for at in range(start, end)
    }
    assert ReplayPlan.load(path, REQUEST) is None


def test_a_change_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "replay.json"
    assert ReplayPlan.load(path, REQUEST) is None
    ReplayPlan.begin(REQUEST, {("a", 0): (0, 5)}).save(path)
    with pytest.raises(ReplayChanged, match=r"5 records are left; .* remove .*replay\.json"):
        ReplayPlan.load(path, {"filter": "true"})
