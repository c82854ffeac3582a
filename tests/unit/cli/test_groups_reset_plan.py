"""Where a reset moves each offset, and the forms in which it can be asked for."""

import pytest
from typer.testing import CliRunner

from goqueue.cli.groups.offsets_file import read_offsets, write_offsets
from goqueue.cli.groups.offsets_plan import (
    PartitionState,
    PlanFailed,
    ResetKind,
    ResetTarget,
    parse_target,
    parse_topics,
    plan,
    plan_given,
)
from goqueue.cli.main import app

NOW_MS = 1_700_000_000_000
STATE = PartitionState("orders", 0, committed=50, start=10, end=100, at_time=70)


def new_offset(target: ResetTarget, state: PartitionState = STATE) -> tuple[int, str]:
    [planned] = plan(target, [state])
    assert (planned.current, planned.end) == (state.committed, state.end)
    return planned.new, planned.note


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", ResetTarget(ResetKind.EARLIEST)),
        ("Latest", ResetTarget(ResetKind.LATEST)),
        ("offset=42", ResetTarget(ResetKind.OFFSET, 42)),
        ("offset 42", ResetTarget(ResetKind.OFFSET, 42)),
        ("offset:42", ResetTarget(ResetKind.OFFSET, 42)),
        ("shift=-10", ResetTarget(ResetKind.SHIFT, -10)),
        ("shift +3", ResetTarget(ResetKind.SHIFT, 3)),
        ("time=2h ago", ResetTarget(ResetKind.TIME, NOW_MS - 7_200_000)),
        ("time 2023-11-14T22:13:20Z", ResetTarget(ResetKind.TIME, NOW_MS)),
    ],
)
def test_targets(text: str, target: ResetTarget) -> None:
    assert parse_target(text, now_ms=NOW_MS) == target


@pytest.mark.parametrize(
    "text", ["", "42", "begin", "offset=", "offset=-1", "offset=x", "shift=1.5"]
)
def test_what_is_no_target_says_what_is(text: str) -> None:
    with pytest.raises(ValueError, match="earliest, latest, offset=N"):
        parse_target(text, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("target", "new"),
    [
        (ResetTarget(ResetKind.EARLIEST), 10),
        (ResetTarget(ResetKind.LATEST), 100),
        (ResetTarget(ResetKind.OFFSET, 42), 42),
        (ResetTarget(ResetKind.TIME, 1), 70),
        (ResetTarget(ResetKind.SHIFT, -20), 30),
        (ResetTarget(ResetKind.SHIFT, 20), 70),
    ],
)
def test_moves(target: ResetTarget, new: int) -> None:
    assert new_offset(target) == (new, "")


def test_outside_the_log_it_stays_at_the_nearer_end() -> None:
    assert new_offset(ResetTarget(ResetKind.OFFSET, 5)) == (10, "5 is outside 10 to 100")
    assert new_offset(ResetTarget(ResetKind.SHIFT, 500)) == (100, "550 is outside 10 to 100")


def test_a_time_after_the_last_message_is_the_end() -> None:
    state = STATE._replace(at_time=None)
    assert new_offset(ResetTarget(ResetKind.TIME, 1), state)[0] == 100


def test_a_shift_needs_an_offset_to_shift() -> None:
    with pytest.raises(PlanFailed, match="orders:0 has no offset to shift"):
        plan(ResetTarget(ResetKind.SHIFT, 1), [STATE._replace(committed=None)])


def test_a_partition_that_is_offline_fails_the_plan() -> None:
    with pytest.raises(PlanFailed, match="offline"):
        plan(ResetTarget(ResetKind.LATEST), [STATE._replace(end=None)])


def test_given_offsets_are_bounded_too() -> None:
    assert [each.new for each in plan_given([STATE, STATE], [60, 600])] == [60, 100]


def test_topics_with_and_without_partitions() -> None:
    assert parse_topics(["a", "b:0,2"]) == {"a": None, "b": frozenset({0, 2})}
    for wrong in ("", ":1", "a:", "a:x", "a:1,"):
        with pytest.raises(ValueError, match="orders:0,2"):
            parse_topics([wrong])


def test_a_file_comes_back_as_it_was_written() -> None:
    offsets = {("orders", 1): 7, ("orders", 0): 3, ("a.b", 0): 0}
    text = write_offsets(offsets)
    assert text == "a.b,0,0\norders,0,3\norders,1,7\n"
    assert read_offsets("# exported\n\n" + text) == offsets


@pytest.mark.parametrize(
    "text", ["", "orders,0", "orders,x,1", "orders,0,-1", ",0,1", "orders,0,1\norders,0,2"]
)
def test_a_wrong_file_is_refused_with_the_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"line|no offsets"):
        read_offsets(text)


@pytest.mark.parametrize(
    "arguments",
    [
        ("offsets", "reset", "g"),
        ("offsets", "reset", "g", "--to", "nowhere"),
        ("offsets", "reset", "g", "--to", "latest", "--from-file", "x"),
        ("offsets", "reset", "g", "--to", "latest", "--topic", "a:b"),
        ("groups", "describe"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2


@pytest.mark.parametrize("command", ["groups", "offsets", "transactions"])
def test_help(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "list" in result.stdout
