"""`goqueue cluster move|drain|rebalance|moves`: replicas go from broker to broker."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from goqueue.cli.cluster.facts import check_cluster, chosen_partitions
from goqueue.cli.confirming import confirm
from goqueue.cli.examples import examples
from goqueue.cli.failures import FAILED, CommandFailed
from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_document, print_table, size_text
from goqueue.cli.unanswered import name_unanswered

if TYPE_CHECKING:
    from goqueue.client.http_api import HttpApi

# The most that one request takes.
_MOVES_AT_ONCE: Final = 1_000
_LOOK_S: Final = 1.0

moves = typer.Typer(
    help="Partitions on their way to other brokers: list, pause, resume, limit, cancel.",
    invoke_without_command=True,
)

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
WaitOption = Annotated[bool, typer.Option("--wait", "-w", help="Return when all are there.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", "-n", help="Only show the plan.")]
NodeArgument = Annotated[int, typer.Argument(metavar="NODE", min=0, help="Number of the node.")]
TopicOption = Annotated[
    str | None,
    typer.Option("--topic", "-t", metavar="TOPIC", help="Only of this topic.", show_default="all"),
]

Place = tuple[str, int]


def move(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")],
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="NODES", help="Nodes, with commas: the preferred leader first."
        ),
    ],
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", "-p", min=0, help="Only this one; can be repeated.", show_default="all"
        ),
    ] = None,
    dry_run: DryRunOption = False,
    wait: WaitOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Move partitions of a topic to these nodes."""
    api = http_api(bootstrap, http)
    nodes = _nodes(to)
    check_cluster(api)
    plan = [
        {
            "topic": topic,
            "partition": each["partition"],
            "before": each["replicas"],
            "replicas": nodes,
        }
        for each in chosen_partitions(api, topic, partition)
    ]
    if dry_run:
        _print_plan(plan, output)
        return
    _carry_out(api, plan, output, wait=wait)


def drain(
    node: NodeArgument,
    undo: Annotated[
        bool, typer.Option("--undo", help="Let the node get replicas again; nothing is moved.")
    ] = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = False,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Move everything away from a node, which gets nothing new from then on."""
    api = http_api(bootstrap, http)
    known = check_cluster(api)["nodes"]
    if undo:
        api.patch("cluster", "nodes", str(node), body={"isCordoned": False})
        typer.echo(f"node {node} gets replicas again", err=True)
        return
    plan = api.get("cluster", "plans", "drain", str(node))
    _show_plan(plan, output if dry_run else Output.TABLE, to_stderr=not dry_run)
    if dry_run:
        return
    if plan["stuck"]:
        raise CommandFailed(
            f"{len(plan['stuck'])} partitions have as many replicas as there are nodes that could "
            "take one: start another node first"
        )
    confirm(f"Move {len(plan['moves'])} partitions away from node {node}?", yes=yes)
    if any(each["nodeId"] == node for each in known):
        api.patch("cluster", "nodes", str(node), body={"isCordoned": True})
    _carry_out(api, plan["moves"], output, wait=wait)
    if wait:
        typer.echo(f"node {node} has no replicas any more, and gets none", err=True)


def rebalance(
    dry_run: DryRunOption = False,
    wait: WaitOption = False,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give all nodes about the same share of bytes, traffic and replicas."""
    api = http_api(bootstrap, http)
    check_cluster(api)
    plan = api.get("cluster", "plans", "rebalance")
    _show_plan(plan, output if dry_run else Output.TABLE, to_stderr=not dry_run)
    if dry_run or not plan["moves"]:
        return
    confirm(f"Move {len(plan['moves'])} partitions?", yes=yes)
    _carry_out(api, plan["moves"], output, wait=wait)


@moves.callback(epilog=examples("goqueue cluster moves", "goqueue cluster moves --wait"))
def list_moves(
    context: typer.Context,
    wait: WaitOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Partitions that are on their way, and how far they are."""
    if context.invoked_subcommand is not None:
        return
    api = http_api(bootstrap, http)
    if wait:
        _wait(api, None)
    found = api.get("cluster", "moves")
    if output is not Output.TABLE:
        print_document(found, output)
        return
    if not found["moves"]:
        typer.echo("nothing is moved", err=True)
    else:
        print_table([_row(each) for each in found["moves"]], columns=_COLUMNS)
    if found["isPaused"]:
        typer.echo("moves are paused; `goqueue cluster moves resume` lets them go on", err=True)
    if found["rateBytes"] is not None:
        typer.echo(f"each broker spends {size_text(found['rateBytes'])} per second", err=True)
    name_unanswered(found)


@moves.command("pause", epilog=examples("goqueue cluster moves pause"))
def pause(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, http: HttpOption = None) -> None:
    """Copy nothing more for moves until `resume`; what is there stays."""
    http_api(bootstrap, http).patch("cluster", "moves", body={"isPaused": True})


@moves.command("resume", epilog=examples("goqueue cluster moves resume"))
def resume(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, http: HttpOption = None) -> None:
    """Let moves go on."""
    http_api(bootstrap, http).patch("cluster", "moves", body={"isPaused": False})


@moves.command("limit", epilog=examples("goqueue cluster moves limit 50000000"))
def limit(
    rate: Annotated[
        int,
        typer.Argument(
            metavar="BYTES", min=0, help="Bytes per second of each broker; 0: no limit."
        ),
    ],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Hold moves to another rate than 20 MB/s. What is written meanwhile is copied on top of it,
    and replicas in sync are never held back."""
    http_api(bootstrap, http).patch("cluster", "moves", body={"rateBytes": rate})


@moves.command(
    "cancel",
    epilog=examples(
        "goqueue cluster moves cancel", "goqueue cluster moves cancel --topic orders --partition 3"
    ),
)
def cancel(
    topic: TopicOption = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", min=0, help="Only this one.", show_default="all"),
    ] = None,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take moves back: the replicas are those before."""
    if partition is not None and topic is None:
        raise typer.BadParameter("say of which topic, with --topic", param_hint="--partition")
    api = http_api(bootstrap, http)
    confirm("Take back what is on its way?", yes=yes)
    results = api.delete("cluster", "moves", topic=topic, partition=partition)["results"]
    _print_results(results, output, "taken back")


# --- what they have in common -----------------------------------------------------------------


def _nodes(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            "numbers of nodes with commas, such as 1,2,3", param_hint="--to"
        ) from None


def _carry_out(
    api: "HttpApi", plan: Sequence[dict[str, Any]], output: Output, *, wait: bool
) -> None:
    wanted = [{name: each[name] for name in ("topic", "partition", "replicas")} for each in plan]
    results: list[dict[str, Any]] = []
    for start in range(0, len(wanted), _MOVES_AT_ONCE):
        part = wanted[start : start + _MOVES_AT_ONCE]
        results += api.post("cluster", "moves", body={"moves": part})["results"]
    _print_results(results, output, "on their way", may_go_on=True)
    if wait:
        _wait(api, {(each["topic"], each["partition"]) for each in results if not each["error"]})
    if any(each["error"] for each in results):
        raise typer.Exit(FAILED)


def _wait(api: "HttpApi", places: set[Place] | None) -> None:
    """Until these are there; all, for None. Says now and then how far they are."""
    told = ""
    while True:
        found = api.get("cluster", "moves")
        left = [
            each
            for each in found["moves"]
            if places is None or (each["topic"], each["partition"]) in places
        ]
        if not left:
            return
        sizes = [copy["bytesLeft"] or 0 for each in left for copy in each["adding"]]
        line = f"{len(left)} partitions are on their way, {size_text(sum(sizes))} to copy"
        line += ", paused" if found["isPaused"] else ""
        if line != told:
            typer.echo(line, err=True)
            told = line
        time.sleep(_LOOK_S)


def _print_results(
    results: list[dict[str, Any]], output: Output, done: str, *, may_go_on: bool = False
) -> None:
    failed = [each for each in results if each["error"] is not None]
    if output is not Output.TABLE:
        print_document(results, output)
    else:
        typer.echo(f"{len(results) - len(failed)} partitions are {done}")
        rows = [{**each, "error": each["error"]["message"]} for each in failed]
        if rows:
            columns = {"topic": "Topic", "partition": "Partition", "error": "Refused"}
            print_table(rows, columns=columns)
    if failed and not may_go_on:
        raise typer.Exit(FAILED)


def _show_plan(plan: dict[str, Any], output: Output, *, to_stderr: bool) -> None:
    if output is not Output.TABLE:
        print_document(plan, output)
        return
    if plan["moves"]:
        _print_plan(plan["moves"], output)
    line = f"{len(plan['moves'])} partitions, {size_text(plan['copiedBytes'])} to copy"
    typer.echo(line if plan["moves"] else "there is nothing to move", err=to_stderr)
    for each in plan["stuck"]:
        typer.echo(f"no other node can take {each['topic']}-{each['partition']}", err=True)
    name_unanswered(plan)


def _print_plan(plan: Sequence[dict[str, Any]], output: Output) -> None:
    if output is not Output.TABLE:
        print_document(list(plan), output)
        return
    columns = {"topic": "Topic", "partition": "Partition", "before": "From", "replicas": "To"}
    print_table(plan, columns=columns)


_COLUMNS: Final = {
    "topic": "Topic",
    "partition": "Partition",
    "leader": "Leader",
    "before": "From",
    "target": "To",
    "added": "Added",
    "left": "Left",
}


def _row(each: dict[str, Any]) -> dict[str, object]:
    added = [
        f"{copy['nodeId']} ({'in sync' if copy['isInSync'] else size_text(copy['bytesLeft'])})"
        for copy in each["adding"]
    ]
    sizes = [copy["bytesLeft"] for copy in each["adding"]]
    left = None if None in sizes else size_text(sum(sizes))
    return {**each, "added": added, "left": left}
