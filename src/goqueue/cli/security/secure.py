"""`goqueue secure`: from nothing to a broker with TLS and log-ins in one command."""

from pathlib import Path
from typing import Annotated

import typer

from goqueue.cli.examples import examples
from goqueue.cli.failures import CommandFailed

secure = typer.Typer(help="Set up TLS, log-ins and the first administrator.", no_args_is_help=True)

HostOption = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="NAME",
        help="A name or address by which others reach the broker; can be repeated. The first is "
        "told to clients.",
        show_default="this machine alone",
    ),
]
DirOption = Annotated[
    Path, typer.Option("--dir", help="Where certificates, keys and the settings are.")
]


@secure.command(
    "init",
    epilog=examples(
        "goqueue secure init",
        "goqueue secure init --host broker.example --host 192.0.2.7",
        "goqueue secure init --host b1.example --host b2.example --for-cluster",
    ),
)
def init(
    hosts: HostOption = None,
    data_dir: Annotated[
        Path, typer.Option(help="Folder of the broker, which must not run.")
    ] = Path("data"),
    folder: DirOption = Path("security"),
    admin: Annotated[str, typer.Option(help="Name of the administrator.")] = "admin",
    profile: Annotated[
        str, typer.Option("--profile", help="Name of the profile for commands.")
    ] = "secured",
    kafka_port: Annotated[int, typer.Option(min=1, max=65535, help="For Kafka clients.")] = 9092,
    http_port: Annotated[int, typer.Option(min=1, max=65535, help="For HTTP.")] = 8080,
    for_cluster: Annotated[
        bool,
        typer.Option(
            "--for-cluster",
            help="For brokers of a cluster: the administrator is written to a file that the first "
            "of them reads, and not to --data-dir.",
        ),
    ] = False,
) -> None:
    """Make certificates, a master key, an administrator with a password, settings for the broker
    and a profile for commands. Nothing that is there is written over."""
    from goqueue.cli.security.set_up import SetUp

    done = SetUp(
        # Through links: what is made there may have to be taken back.
        folder=folder.resolve(),
        data_dir=data_dir.absolute(),
        hosts=tuple(hosts or ()),
        admin=admin,
        profile=profile,
        kafka_port=kafka_port,
        http_port=http_port,
        for_cluster=for_cluster,
    ).run()
    typer.echo(done)


@secure.command(
    "renew", epilog=examples("goqueue secure renew", "goqueue secure renew --host b.example")
)
def renew(hosts: HostOption = None, folder: DirOption = Path("security")) -> None:
    """Make another certificate for the broker, by the same CA. A running broker takes it within
    seconds, and no connection is dropped."""
    from goqueue.cli.security.set_up import hosts_of_certificate
    from goqueue.server.tls.making import BROKER_FILE, CA_KEY_FILE, make_certificates

    if not (folder / CA_KEY_FILE).is_file():
        raise CommandFailed(
            f"{folder / CA_KEY_FILE} is not there: name the folder of `goqueue secure init` with "
            "--dir"
        )
    names = list(hosts or hosts_of_certificate(folder / BROKER_FILE))
    made = make_certificates(folder, names, renew=True)
    typer.echo(f"wrote {made.broker} for {', '.join(names)}")
