"""`goqueue offsets`: list, reset, export, delete."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.confirming import confirm
from goqueue.cli.examples import examples
from goqueue.cli.failures import CommandFailed
from goqueue.cli.groups.access import GroupArgument, YesOption, ends_of, lag_of, with_groups
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_rows

if TYPE_CHECKING:
    from goqueue.cli.groups.offsets_plan import PlannedOffset, ResetTarget
    from goqueue.client.admin import KafkaAdmin
    from goqueue.client.group_facts import PartitionKey
    from goqueue.client.groups import GroupAdmin

offsets = typer.Typer(
    help="See and move where consumer groups go on reading.", no_args_is_help=True
)

_EMPTY = "Empty"

TopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:P,…]",
        help="A topic, or some partitions of it (orders:0,2); can be repeated.",
    ),
]


@offsets.command("list", epilog=examples("goqueue offsets list billing"))
def list_offsets(
    group: GroupArgument,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show where a group is in each partition, with its lag."""

    async def work(admin: "KafkaAdmin", groups: "GroupAdmin") -> list[dict[str, object]]:
        committed = await groups.offsets(group)
        ends = await ends_of(admin, {topic for topic, _ in committed})
        return [
            {
                "topic": topic,
                "partition": partition,
                "committedOffset": facts.offset,
                "endOffset": (end := ends.get((topic, partition), (None, None))[1]),
                "lag": lag_of(facts.offset, end),
                "metadata": facts.metadata,
            }
            for (topic, partition), facts in sorted(committed.items())
        ]

    rows = with_groups(bootstrap, work)
    if output is Output.TABLE and not rows:
        typer.echo(f"group {group} has no offsets", err=True)
        return
    columns = {
        "topic": "Topic",
        "partition": "Partition",
        "committedOffset": "Offset",
        "endOffset": "End offset",
        "lag": "Lag",
        "metadata": "Note",
    }
    print_rows(rows, output, columns=columns)


@offsets.command("export", epilog=examples("goqueue offsets export billing --file billing.csv"))
def export_offsets(
    group: GroupArgument,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Write here instead of printing.")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Print offsets as lines of topic,partition,offset; `reset --from-file` takes them."""
    from goqueue.cli.groups.offsets_file import write_offsets

    committed = with_groups(bootstrap, lambda _, groups: groups.offsets(group))
    if not committed:
        raise CommandFailed(f"group {group!r} has no offsets; see `goqueue groups list`")
    text = write_offsets({place: facts.offset for place, facts in committed.items()})
    if file is None:
        typer.echo(text, nl=False)
        return
    try:
        file.write_text(text)
    except OSError as error:
        raise CommandFailed(f"cannot write {file}: {error.strerror}") from error
    typer.echo(f"wrote {len(committed)} offsets to {file}")


@offsets.command("delete", epilog=examples("goqueue offsets delete billing --topic orders --yes"))
def delete_offsets(
    group: GroupArgument,
    topic: TopicsOption = None,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Forget offsets of topics that nobody in the group reads; all topics without --topic."""
    wanted = _topics(topic)
    which = ", ".join(topic or ()) or "all topics"
    confirm(f"Delete the offsets of group {group} in {which}?", yes=yes)

    async def work(_: "KafkaAdmin", groups: "GroupAdmin") -> int:
        committed = await groups.offsets(group)
        places = [place for place in committed if _is_wanted(place, wanted)]
        if not places:
            raise CommandFailed(
                f"group {group!r} has no such offsets; see `goqueue offsets list {group}`"
            )
        await groups.delete_offsets(group, places)
        return len(places)

    count = with_groups(bootstrap, work)
    typer.echo(f"deleted {count} offsets of group {group}")


@offsets.command(
    "reset",
    epilog=examples(
        "goqueue offsets reset billing --to earliest --dry-run",
        "goqueue offsets reset billing --to time='2h ago' --topic orders:0,2",
        "goqueue offsets reset billing --from-file billing.csv",
    ),
)
def reset_offsets(
    group: GroupArgument,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="TARGET",
            help="earliest, latest, offset=42, time='2h ago' (or 2030-01-31T08:15:00Z), shift=-10.",
        ),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file", help="Lines of topic,partition,offset, as `offsets export` prints."
        ),
    ] = None,
    topic: TopicsOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done.")
    ] = False,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """Move a group to other offsets. It must have no members.

    Without --topic: all partitions in which the group has an offset.
    """
    from goqueue.cli.groups.offsets_plan import PlanFailed

    if (to is None) == (from_file is None):
        raise typer.BadParameter("give one of --to and --from-file")
    wanted = _topics(topic)
    target = None if to is None else _target(to)
    given = None if from_file is None else _file(from_file)

    async def work(admin: "KafkaAdmin", groups: "GroupAdmin") -> list["PlannedOffset"]:
        await _check_stopped(groups, group)
        committed = {place: facts.offset for place, facts in (await groups.offsets(group)).items()}
        try:
            planned = await _plan(admin, group, committed, target, given, wanted)
        except PlanFailed as error:
            raise CommandFailed(str(error)) from error
        if not dry_run:
            _confirm(group, planned, yes=yes)
            await groups.commit(group, {(each.topic, each.partition): each.new for each in planned})
        return planned

    planned = with_groups(bootstrap, work)
    _show(planned, output)
    if output is Output.TABLE:
        typer.echo(
            f"nothing was changed; leave out --dry-run to reset group {group}"
            if dry_run
            else f"reset {len(planned)} offsets of group {group}"
        )


async def _check_stopped(groups: "GroupAdmin", group: str) -> None:
    facts = await groups.describe(group)
    if facts is None or (facts.state == _EMPTY and not facts.members):
        return
    count = "1 member" if len(facts.members) == 1 else f"{len(facts.members)} members"
    raise CommandFailed(
        f"group {group!r} has {count} ({facts.state}) and would go on from its own offsets; stop "
        f"them first (`goqueue groups describe {group}` shows them)"
    )


async def _plan(
    admin: "KafkaAdmin",
    group: str,
    committed: dict["PartitionKey", int],
    target: "ResetTarget | None",
    given: dict["PartitionKey", int] | None,
    wanted: dict[str, frozenset[int] | None],
) -> list["PlannedOffset"]:
    from goqueue.cli.groups.offsets_plan import PartitionState, plan, plan_given

    named = {topic for topic, _ in (committed if given is None else given)} | wanted.keys()
    ends = await ends_of(admin, named)
    places = _places(group, committed, given, wanted, ends)
    times = await _times(admin, target, places)
    states = [
        PartitionState(*place, committed.get(place), *ends[place], times.get(place))
        for place in places
    ]
    if target is not None:
        return plan(target, states)
    assert given is not None
    return plan_given(states, [given[place] for place in places])


def _places(
    group: str,
    committed: dict["PartitionKey", int],
    given: dict["PartitionKey", int] | None,
    wanted: dict[str, frozenset[int] | None],
    ends: dict["PartitionKey", tuple[int | None, int | None]],
) -> list["PartitionKey"]:
    """The partitions to move; what was named must be there."""
    if given is not None:
        named = [place for place in given if not wanted or _is_wanted(place, wanted)]
    elif wanted:
        named = [place for place in ends if _is_wanted(place, wanted)]
        named += [(topic, n) for topic, numbers in wanted.items() for n in numbers or ()]
        absent = wanted.keys() - {topic for topic, _ in ends}
        if absent:
            raise CommandFailed(
                f"there is no topic {sorted(absent)[0]!r}; see `goqueue topics list`"
            )
    else:
        # Topics that were deleted meanwhile have nothing to go to.
        named = [place for place in committed if place in ends]
    for topic, partition in named:
        if (topic, partition) not in ends:
            raise CommandFailed(
                f"there is no partition {partition} of topic {topic!r}; see "
                f"`goqueue topics describe {topic}`"
            )
    if not named:
        raise CommandFailed(f"group {group!r} has no offsets; say with --topic what to reset")
    return sorted(set(named))


async def _times(
    admin: "KafkaAdmin", target: "ResetTarget | None", places: list["PartitionKey"]
) -> dict["PartitionKey", int]:
    from goqueue.cli.groups.offsets_plan import ResetKind

    if target is None or target.kind is not ResetKind.TIME:
        return {}
    found: dict[PartitionKey, int] = {}
    for topic in {topic for topic, _ in places}:
        for partition, offset in (await admin.offsets_at(topic, target.value)).items():
            found[topic, partition] = offset
    return found


def _confirm(group: str, planned: list["PlannedOffset"], *, yes: bool) -> None:
    if not yes:
        _show(planned, Output.TABLE)
    confirm(f"Reset {len(planned)} offsets of group {group}?", yes=yes)


def _show(planned: list["PlannedOffset"], output: Output) -> None:
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "currentOffset": each.current,
            "newOffset": each.new,
            "lag": each.end - each.new,
            "note": each.note,
        }
        for each in planned
    ]
    columns = {
        "topic": "Topic",
        "partition": "Partition",
        "currentOffset": "Current",
        "newOffset": "New",
        "lag": "Lag then",
        "note": "Note",
    }
    print_rows(rows, output, columns=columns)


def _topics(texts: list[str] | None) -> dict[str, frozenset[int] | None]:
    from goqueue.cli.groups.offsets_plan import parse_topics

    try:
        return parse_topics(texts or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--topic") from error


def _target(text: str) -> "ResetTarget":
    from goqueue.cli.groups.offsets_plan import parse_target

    try:
        return parse_target(text, now_ms=time.time_ns() // 1_000_000)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--to") from error


def _file(path: Path) -> dict["PartitionKey", int]:
    from goqueue.cli.groups.offsets_file import read_offsets

    try:
        return read_offsets(path.read_text())
    except OSError as error:
        raise CommandFailed(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise CommandFailed(f"{path}: {error}") from error


def _is_wanted(place: "PartitionKey", wanted: dict[str, frozenset[int] | None]) -> bool:
    topic, partition = place
    if not wanted:
        return True
    if topic not in wanted:
        return False
    numbers = wanted[topic]
    return numbers is None or partition in numbers
