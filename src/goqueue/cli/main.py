"""The command's root: what there is, and `--version`."""

from typing import Annotated, Final

import typer

from goqueue import __version__
from goqueue.cli.broker.backup import backup
from goqueue.cli.broker.data import data
from goqueue.cli.broker.serve import serve
from goqueue.cli.broker.settings import settings
from goqueue.cli.cluster.cluster import cluster
from goqueue.cli.examples import examples
from goqueue.cli.failures import CommandGroup
from goqueue.cli.groups.groups import groups
from goqueue.cli.groups.offsets import offsets
from goqueue.cli.messages.consume import consume
from goqueue.cli.messages.dead_letters import dlq
from goqueue.cli.messages.delays import delayed
from goqueue.cli.messages.produce import produce
from goqueue.cli.messages.queues import queue
from goqueue.cli.messages.tracing import trace
from goqueue.cli.pipelines.pipelines import pipeline
from goqueue.cli.schemas import schemas
from goqueue.cli.security.acls import acls
from goqueue.cli.security.audit import audit
from goqueue.cli.security.keys import keys
from goqueue.cli.security.profiles import profile
from goqueue.cli.security.quotas import quotas
from goqueue.cli.security.secure import secure
from goqueue.cli.security.tenants import tenants
from goqueue.cli.security.users import users
from goqueue.cli.security.whoami import whoami
from goqueue.cli.topics import topics
from goqueue.cli.transactions import transactions

app = typer.Typer(
    name="goqueue",
    cls=CommandGroup,
    help="A message broker for Kafka and SQS clients, and the commands to work with it.",
    epilog=examples(
        "goqueue serve",
        "goqueue produce orders 'two coffees'",
        "goqueue consume orders",
        "goqueue queue poll workers orders",
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"goqueue {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


_BROKER: Final = "Run a broker"
_MESSAGES: Final = "Send, read and follow messages"
_CLUSTER: Final = "Look at what a broker has, and change it"
_SECURITY: Final = "Say who may do what"
_SPARK: Final = "Spark"

app.command(
    rich_help_panel=_BROKER,
    epilog=examples(
        "goqueue serve --data-dir /var/lib/goqueue --set topic.retention.ms=7d",
        "goqueue serve --config goqueue.toml --kafka-port 9192",
    ),
)(serve)
app.command(rich_help_panel=_BROKER, epilog=examples("goqueue settings retention"))(settings)
app.add_typer(data, name="data", rich_help_panel=_BROKER)
app.add_typer(backup, name="backup", rich_help_panel=_BROKER)
app.command(
    rich_help_panel=_MESSAGES,
    epilog=examples(
        "goqueue produce orders --key alice 'two coffees' 'one cake'",
        "goqueue produce orders --key-separator : --file orders.txt",
        "goqueue produce orders --delay 1h30m 'a reminder'",
    ),
)(produce)
app.command(
    rich_help_panel=_MESSAGES,
    epilog=examples(
        "goqueue consume orders --keys --offsets",
        "goqueue consume orders --since '2h ago' --limit 10",
        "goqueue consume orders --follow -o json",
    ),
)(consume)
app.add_typer(queue, name="queue", rich_help_panel=_MESSAGES)
app.add_typer(dlq, name="dlq", rich_help_panel=_MESSAGES)
app.add_typer(delayed, name="delayed", rich_help_panel=_MESSAGES)
app.command(
    rich_help_panel=_MESSAGES,
    epilog=examples(
        "goqueue trace orders/0/17",
        "goqueue trace --failed --topic orders --from '1h ago'",
    ),
)(trace)
app.add_typer(cluster, name="cluster", rich_help_panel=_CLUSTER)
app.command(
    rich_help_panel=_CLUSTER,
    epilog=examples("goqueue audit --event login", "goqueue audit --principal User:alice -o json"),
)(audit)
app.add_typer(topics, name="topics", rich_help_panel=_CLUSTER)
app.add_typer(groups, name="groups", rich_help_panel=_CLUSTER)
app.add_typer(offsets, name="offsets", rich_help_panel=_CLUSTER)
app.add_typer(transactions, name="transactions", rich_help_panel=_CLUSTER)
app.add_typer(quotas, name="quotas", rich_help_panel=_CLUSTER)
app.add_typer(schemas, name="schemas", rich_help_panel=_CLUSTER)
app.add_typer(secure, name="secure", rich_help_panel=_SECURITY)
app.add_typer(profile, name="profile", rich_help_panel=_SECURITY)
app.add_typer(users, name="users", rich_help_panel=_SECURITY)
app.add_typer(acls, name="acls", rich_help_panel=_SECURITY)
app.add_typer(keys, name="keys", rich_help_panel=_SECURITY)
app.add_typer(tenants, name="tenants", rich_help_panel=_SECURITY)
app.command(rich_help_panel=_SECURITY, epilog=examples("goqueue whoami -o json"))(whoami)
app.add_typer(pipeline, name="pipeline", rich_help_panel=_SPARK)
