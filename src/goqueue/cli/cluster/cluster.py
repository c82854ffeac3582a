"""`goqueue cluster`: its nodes, how it is doing, who leads what."""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from goqueue.cli.cluster.adopting import ADOPT_EXAMPLE, adopt
from goqueue.cli.cluster.facts import check_cluster, chosen_partitions, partition_pages
from goqueue.cli.cluster.moves import drain, move, moves, rebalance
from goqueue.cli.cluster.settings import SETTINGS_EXAMPLES, cluster_settings
from goqueue.cli.confirming import confirm
from goqueue.cli.examples import examples
from goqueue.cli.failures import FAILED, CommandFailed
from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.kafka_access import with_admin
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_document, print_rows, print_table

if TYPE_CHECKING:
    from goqueue.client.cluster import ClusterAdmin

Result = TypeVar("Result")

cluster = typer.Typer(
    help="Look at a cluster's nodes, health and partitions; elect leaders; move replicas between "
    "nodes; let a node leave.",
    no_args_is_help=True,
)


class Problem(StrEnum):
    OFFLINE = "offline"
    UNDER_MIN_ISR = "under-min-isr"
    UNDER_REPLICATED = "under-replicated"


YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
TopicOption = Annotated[
    str | None,
    typer.Option("--topic", "-t", metavar="TOPIC", help="Only of this topic.", show_default="all"),
]


@cluster.command("status", epilog=examples("goqueue cluster status", "goqueue cluster status -c"))
def status(
    check: Annotated[
        bool, typer.Option("--check", "-c", help="End with 1 unless the cluster is healthy.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """How the cluster is doing, and what is wrong with it."""
    api = http_api(bootstrap, http)
    state, health = api.get("cluster", "state"), api.get("cluster", "health")
    if output is Output.TABLE:
        _print_status(state, health)
    else:
        print_document({**health, **state}, output)
    if check and health["status"] != "healthy":
        raise typer.Exit(FAILED)


def _print_status(state: dict[str, Any], health: dict[str, Any]) -> None:
    if not state["isCluster"]:
        typer.echo(f"{health['status']}: a node of one, cluster id {state['clusterId']}")
    else:
        alive = sum(node["status"] == "alive" for node in state["nodes"])
        controller = state["controllerId"]
        typer.echo(f"{health['status']}: cluster {state['clusterId']}")
        typer.echo(
            f"{alive} of {len(state['nodes'])} nodes are alive, "
            + ("there is no controller" if controller is None else f"{controller} is controller")
        )
    counts = state["partitions"]
    typer.echo(
        f"{counts['partitions']} partitions, {counts['offline']} offline, "
        f"{counts['underMinIsr']} under min ISR, {counts['underReplicated']} under-replicated, "
        f"{counts['notPreferred']} not led by their first replica"
    )
    for reason in health["reasons"]:
        typer.echo(f"- {reason}")
    if health["troubled"]:
        columns = {"topic": "Topic", "partition": "Partition", "problem": "Problem"}
        columns |= {"leader": "Leader", "replicas": "Replicas", "isr": "In sync"}
        print_table(health["troubled"], columns=columns)


@cluster.command("nodes", epilog=examples("goqueue cluster nodes", "goqueue cluster nodes -o json"))
def nodes(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """The nodes, those that are down as well."""
    columns = {
        "nodeId": "Node",
        "status": "Status",
        "host": "Host",
        "kafkaPort": "Kafka",
        "httpPort": "HTTP",
        "rack": "Rack",
        "isController": "Controller",
        "isCordoned": "Cordoned",
        "leaders": "Leads",
        "replicas": "Replicas",
        "laggingReplicas": "Not in sync",
    }
    print_rows(http_api(bootstrap, http).get("cluster", "state")["nodes"], output, columns=columns)


@cluster.command(
    "partitions",
    epilog=examples(
        "goqueue cluster partitions --topic orders", "goqueue cluster partitions --problem offline"
    ),
)
def partitions(
    topic: TopicOption = None,
    problem: Annotated[
        Problem | None,
        typer.Option("--problem", "-p", help="Only those with which this is wrong."),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Who leads, has and follows each partition."""
    columns = {
        "topic": "Topic",
        "partition": "Partition",
        "leader": "Leader",
        "leaderEpoch": "Epoch",
        "replicas": "Replicas",
        "isr": "In sync",
        "eligible": "Eligible",
        "offline": "Down",
        "minIsr": "Min in sync",
    }
    found = list(partition_pages(http_api(bootstrap, http), topic, problem))
    if output is Output.TABLE and not found:
        typer.echo("no such partitions", err=True)
        return
    print_rows(found, output, columns=columns)


@cluster.command(
    "elect",
    epilog=examples(
        "goqueue cluster elect",
        "goqueue cluster elect --topic orders --partition 3",
        "goqueue cluster elect --topic orders --partition 3 --unclean",
    ),
)
def elect(
    topic: TopicOption = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", "-p", min=0, help="Only this one; can be repeated.", show_default="all"
        ),
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="Where nobody leads: any replica that is there. What it does not have is lost.",
        ),
    ] = False,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let the first of their replicas lead partitions, where it is in sync."""
    if partition and topic is None:
        raise typer.BadParameter("say of which topic, with --topic", param_hint="--partition")
    if unclean and topic is None:
        raise typer.BadParameter("say of which topic, with --topic", param_hint="--unclean")
    api = http_api(bootstrap, http)
    check_cluster(api)
    wanted = None
    if topic is not None:
        chosen = chosen_partitions(api, topic, partition)
        wanted = [(topic, each["partition"]) for each in chosen]
    if unclean:
        question = "What the new leaders do not have is lost. Elect them all the same?"
        confirm(question, yes=yes)
    results = _with_cluster(bootstrap, lambda admin: admin.elect(wanted, unclean=unclean))
    rows = [
        {"topic": each.topic, "partition": each.partition, "problem": each.problem}
        for each in results
        if each.is_new or each.problem
    ]
    if output is not Output.TABLE:
        print_document(rows, output)
    else:
        failed = [row for row in rows if row["problem"] is not None]
        typer.echo(f"{len(rows) - len(failed)} partitions have another leader now")
        if failed:
            columns = {"topic": "Topic", "partition": "Partition", "problem": "Not elected"}
            print_table(failed, columns=columns)
    if any(row["problem"] is not None for row in rows):
        raise typer.Exit(FAILED)


@cluster.command("leave", epilog=examples("goqueue cluster leave 3 --yes"))
def leave(
    node: Annotated[int, typer.Argument(metavar="NODE", min=0, help="Number of the node.")],
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Forget a node that is stopped and does not come back. Its data stay on its disk."""
    api = http_api(bootstrap, http)
    state = check_cluster(api)
    found = next((each for each in state["nodes"] if each["nodeId"] == node), None)
    if found is None:
        raise CommandFailed(f"there is no node {node}; see `goqueue cluster nodes`")
    if found["status"] != "dead":
        raise CommandFailed(f"node {node} is {found['status']}: stop it first, with SIGTERM")
    if found["replicas"]:
        typer.echo(f"{found['replicas']} replicas are on node {node}: they stay missing", err=True)
    confirm(f"Forget node {node}?", yes=yes)
    _with_cluster(bootstrap, lambda admin: admin.forget_node(node))
    typer.echo(f"node {node} is not part of the cluster any more")


cluster.command("settings", epilog=examples(*SETTINGS_EXAMPLES))(cluster_settings)
cluster.command(
    epilog=examples(
        "goqueue cluster move orders --to 2,3,4 --wait",
        "goqueue cluster move orders --partition 3 --to 4,2",
    )
)(move)
cluster.command(
    epilog=examples("goqueue cluster drain 3 --dry-run", "goqueue cluster drain 3 --wait --yes")
)(drain)
cluster.command(
    epilog=examples("goqueue cluster rebalance --dry-run", "goqueue cluster rebalance --wait -y")
)(rebalance)
cluster.add_typer(moves, name="moves")
cluster.command(epilog=examples(ADOPT_EXAMPLE))(adopt)


def _with_cluster(bootstrap: str, work: Callable[["ClusterAdmin"], Awaitable[Result]]) -> Result:
    from goqueue.client.cluster import ClusterAdmin

    return with_admin(bootstrap, lambda admin: work(ClusterAdmin(admin)))
