"""Tasks are given out evenly, stay where they were, and stand by in other processes."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.groups.assignment import common, count
from goqueue.model.groups.tasks import NO_TASKS, TaskKey, TaskRole, Tasks, of_role
from goqueue.state.groups.streams.assignor import MemberSpec, assign
from goqueue.state.groups.streams.topology import ConfiguredSubtopology
from tests.unit.state.groups.streams.streams_world import shown, tasks


def subtopologies(stateful: bool = True, **counts: int) -> dict[str, ConfiguredSubtopology]:
    return {
        name.removeprefix("s"): ConfiguredSubtopology(number, stateful, {f"t{name}": number})
        for name, number in counts.items()
    }


def fresh(*processes: str) -> dict[str, MemberSpec]:
    return {f"m{i}": MemberSpec(process, NO_TASKS) for i, process in enumerate(processes)}


def test_partitions_of_a_subtopology_are_spread() -> None:
    given_out = assign(fresh("p", "q"), subtopologies(s0=4, s1=2), 0)
    assert {name: shown(each) for name, each in given_out.items()} == {
        "m0": "0_0 0_2 1_0",
        "m1": "0_1 0_3 1_1",
    }


def test_what_is_left_over_goes_to_the_process_with_fewer() -> None:
    members = {**fresh("p", "p", "q"), "m0": MemberSpec("p", tasks("0_0 0_1"))}
    after = assign(members, subtopologies(s0=5), 0)
    assert {name: shown(each) for name, each in after.items()} == {
        "m0": "0_0 0_1",
        "m1": "0_3",
        "m2": "0_2 0_4",
    }


def test_a_new_member_takes_only_its_share() -> None:
    before = {"m0": MemberSpec("p", tasks("0_0 0_1 0_2 0_3")), "m1": MemberSpec("q", NO_TASKS)}
    after = assign(before, subtopologies(s0=4), 0)
    assert shown(after["m0"]) == "0_0 0_1"
    assert shown(after["m1"]) == "0_2 0_3"


def test_a_task_goes_to_where_it_stood_by() -> None:
    before = {
        "m0": MemberSpec("p", tasks("0_0", standby="0_2")),
        "m1": MemberSpec("q", tasks("0_1", standby="0_3")),
    }
    after = assign(before, subtopologies(s0=4), 1)
    assert shown(after["m0"]) == "0_0 0_2"
    assert shown(after["m1"]) == "0_1 0_3"
    assert shown(after["m0"], TaskRole.STANDBY) == "0_1 0_3"


def test_standbys_are_of_stateful_tasks_and_in_other_processes() -> None:
    one_process = assign(fresh("p", "p"), subtopologies(s0=2), 2)
    assert not any(of_role(each, TaskRole.STANDBY) for each in one_process.values())
    stateless = assign(fresh("p", "q"), subtopologies(stateful=False, s0=2), 1)
    assert not any(of_role(each, TaskRole.STANDBY) for each in stateless.values())


def test_who_loses_an_active_task_keeps_it_ready() -> None:
    before = {"m0": MemberSpec("p", tasks("0_0 0_1")), "m1": MemberSpec("q", NO_TASKS)}
    after = assign(before, subtopologies(s0=2), 1)
    assert shown(after["m0"]) == "0_0"
    assert shown(after["m0"], TaskRole.STANDBY) == "0_1"


def test_nobody_gets_nothing() -> None:
    assert assign({}, subtopologies(s0=2), 1) == {}


keys = st.builds(TaskKey, st.sampled_from(TaskRole), st.sampled_from(["0", "1", "2"]))
targets = st.dictionaries(keys, st.frozensets(st.integers(0, 8), min_size=1), max_size=4)
specs = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(7)]),
    st.builds(MemberSpec, st.sampled_from(["p", "q", "r"]), targets),
    min_size=1,
)
plans = st.dictionaries(
    st.sampled_from(["0", "1"]),
    st.builds(ConfiguredSubtopology, st.integers(1, 9), st.booleans(), st.just({})),
    min_size=1,
)


def check(
    members: dict[str, MemberSpec],
    plan: dict[str, ConfiguredSubtopology],
    replicas: int,
    given_out: dict[str, Tasks],
) -> None:
    assert given_out.keys() == members.keys()
    sizes = []
    actives: list[tuple[str, int]] = []
    processes: dict[tuple[str, int], list[str]] = {}
    for name, each in given_out.items():
        active = [(s, n) for s, ns in of_role(each, TaskRole.ACTIVE).items() for n in ns]
        standby = [(s, n) for s, ns in of_role(each, TaskRole.STANDBY).items() for n in ns]
        sizes.append(len(active))
        actives += active
        assert all(plan[subtopology].is_stateful for subtopology, _ in standby)
        for task in active + standby:
            processes.setdefault(task, []).append(members[name].process_id)
    # Every task once, and evenly.
    assert sorted(actives) == sorted((s, n) for s, each in plan.items() for n in range(each.tasks))
    assert max(sizes) - min(sizes) <= 1
    others = len({spec.process_id for spec in members.values()}) - 1
    for (subtopology, _), having in processes.items():
        assert len(having) == len(set(having)), "a process has a task twice"
        wanted = min(replicas, others) if plan[subtopology].is_stateful else 0
        assert len(having) == 1 + wanted


@given(specs, plans, st.integers(0, 2))
def test_any_assignment_is_whole_even_and_apart(
    members: dict[str, MemberSpec], plan: dict[str, ConfiguredSubtopology], replicas: int
) -> None:
    first = assign(members, plan, replicas)
    check(members, plan, replicas, first)
    # Asked again, nothing moves.
    again = {name: MemberSpec(members[name].process_id, first[name]) for name in members}
    second = assign(again, plan, replicas)
    for name in members:
        assert of_role(second[name], TaskRole.ACTIVE) == of_role(first[name], TaskRole.ACTIVE)


@given(specs, plans, st.integers(0, 2))
def test_a_member_that_leaves_moves_only_what_was_its_own(
    members: dict[str, MemberSpec], plan: dict[str, ConfiguredSubtopology], replicas: int
) -> None:
    first = assign(members, plan, replicas)
    staying = sorted(members)[1:]
    after_leaving = {n: MemberSpec(members[n].process_id, first[n]) for n in staying}
    second = assign(after_leaving, plan, replicas)
    for name in staying:
        before = {k: v for k, v in first[name].items() if k.role is TaskRole.ACTIVE}
        assert count(common(before, second[name])) == count(before)
