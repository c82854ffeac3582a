"""`goqueue secure`: from nothing to a broker with TLS and log-ins in one command."""

from pathlib import Path
from typing import Annotated

import typer

from goqueue.cli.examples import examples
from goqueue.cli.failures import CommandFailed
from goqueue.server.tls.making import CA_DAYS
from goqueue.server.tls.revoking import LIST_DAYS

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
    from goqueue.server.tls.making import BROKER_FILE, make_certificates

    _check_ca(folder)
    names = list(hosts or hosts_of_certificate(folder / BROKER_FILE))
    made = make_certificates(folder, names, renew=True)
    typer.echo(f"wrote {made.broker} for {', '.join(names)}")


@secure.command(
    "client", epilog=examples("goqueue secure client alice", "goqueue secure client alice --renew")
)
def client(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The common name in the certificate.")
    ],
    folder: DirOption = Path("security"),
    renew: Annotated[
        bool,
        typer.Option(
            "--renew",
            help="Replace the one that is there. It still counts: revoke it first if it must not.",
        ),
    ] = False,
) -> None:
    """Make a certificate for a client, by the CA of `secure init`, and its key. A broker asks for
    certificates with the setting tls.client.auth."""
    from goqueue.server.tls.making import make_client_certificate

    _check_ca(folder)
    try:
        certificate, key = make_client_certificate(folder, name, renew=renew)
    except FileExistsError as error:
        raise CommandFailed(
            f"{error.filename} is there already: choose another name, or --renew"
        ) from None
    typer.echo(f"wrote {certificate} and {key} for CN={name}")


@secure.command(
    "revoke", epilog=examples("goqueue secure revoke security/alice.pem", "goqueue secure revoke")
)
def revoke(
    certificates: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[CERTIFICATE]...", help="PEM files of clients' certificates."),
    ] = None,
    folder: DirOption = Path("security"),
    days: Annotated[
        int, typer.Option(min=1, max=CA_DAYS, help="How long the list holds until it is renewed.")
    ] = LIST_DAYS,
) -> None:
    """Take certificates back that `secure client` made: add them to the list that brokers read by
    the setting tls.client.crl.file. Without one, only make the list hold longer."""
    from goqueue.server.tls.revoking import REVOKED_FILE, revoke

    _check_ca(folder)
    for name in revoke(folder, certificates or [], days=days):
        typer.echo(f"revoked {name}")
    typer.echo(
        f"wrote {folder / REVOKED_FILE}, which holds for {days} days; brokers read it by the "
        "setting tls.client.crl.file"
    )


def _check_ca(folder: Path) -> None:
    from goqueue.server.tls.making import CA_KEY_FILE

    if not (folder / CA_KEY_FILE).is_file():
        raise CommandFailed(
            f"{folder / CA_KEY_FILE} is not there: name the folder of `goqueue secure init` with "
            "--dir"
        )
