"""`goqueue quotas`: what users, clients and addresses may use per second, and what they use."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from goqueue.cli.examples import examples
from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_document, print_rows

quotas = typer.Typer(
    help="Limit what users, clients and addresses use per second.", no_args_is_help=True
)

# What stands for every one without a quota of its own, as in Kafka's tools.
DEFAULT: Final = "<default>"
_NAMES: Final = (
    "producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate; "
    "with --ip: connection_creation_rate"
)

UserOption = Annotated[
    str | None,
    typer.Option("--user", help=f"Of this user; '{DEFAULT}': of every other.", show_default=False),
]
ClientOption = Annotated[
    str | None,
    typer.Option(
        "--client-id", help=f"Of this client id; '{DEFAULT}': of every other.", show_default=False
    ),
]
IpOption = Annotated[
    str | None,
    typer.Option("--ip", help=f"Of this address; '{DEFAULT}': of every other.", show_default=False),
]


@quotas.command("list", epilog=examples("goqueue quotas list"))
def list_quotas(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """All quotas that are set; each holds at every broker by itself."""
    _print(http_api(bootstrap, http).get("quotas"), output)


@quotas.command(
    "set",
    epilog=examples(
        "goqueue quotas set --user alice producer_byte_rate=5MB consumer_byte_rate=20MB",
        "goqueue quotas set --user '<default>' request_percentage=50",
        "goqueue quotas set --ip 10.0.0.7 connection_creation_rate=10",
    ),
)
def set_quotas(
    values: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE...", help=f"One or more of {_NAMES}.")
    ],
    user: UserOption = None,
    client_id: ClientOption = None,
    ip: IpOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Set quotas of a user, of a client id, of both together, or of an address."""
    change = {**_entity(user, client_id, ip), "set": dict(map(_value, values))}
    _print(http_api(bootstrap, http).patch("quotas", body={"changes": [change]}), output)


@quotas.command(
    "remove",
    epilog=examples(
        "goqueue quotas remove --user alice producer_byte_rate",
        "goqueue quotas remove --client-id loader",
    ),
)
def remove_quotas(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Which ones.", show_default="all of them"),
    ] = None,
    user: UserOption = None,
    client_id: ClientOption = None,
    ip: IpOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take quotas away."""
    api, entity = http_api(bootstrap, http), _entity(user, client_id, ip)
    if not names:
        names = [
            name
            for quota in api.get("quotas")["quotas"]
            if {key: each for key, each in quota.items() if key != "values"} == entity
            for name in quota["values"]
        ]
    if not names:
        typer.echo("there is no such quota", err=True)
        raise typer.Exit(1)
    change = {**entity, "remove": names}
    _print(api.patch("quotas", body={"changes": [change]}), output)


@quotas.command("usage", epilog=examples("goqueue quotas usage"))
def show_usage(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Who uses how much of its quotas at the broker that is asked, and who is held back."""
    usage = http_api(bootstrap, http).get("quotas", "usage")["usage"]
    if output is not Output.TABLE:
        print_document(usage, output)
        return
    if not usage:
        typer.echo("nobody uses anything that there is a quota for", err=True)
        return
    rows = [
        {
            "of": _owner(each),
            "name": each["name"],
            "quota": f"{each['quota']:.15g}",
            "used": f"{each['used']:.15g}",
            "ratio": f"{each['ratio']:.0%}",
            "waitMs": each["waitMs"],
        }
        for each in usage
    ]
    columns = {
        "of": "Of",
        "name": "Quota",
        "quota": "Per second",
        "used": "Used",
        "ratio": "Share",
        "waitMs": "Waits ms",
    }
    print_rows(rows, output, columns=columns)


def _entity(user: str | None, client_id: str | None, ip: str | None) -> dict[str, str]:
    given = {"user": user, "clientId": client_id, "ip": ip}
    named = {
        key: "" if name == DEFAULT else name for key, name in given.items() if name is not None
    }
    if not named:
        raise typer.BadParameter("give --user, --client-id or --ip")
    return named


def _value(text: str) -> tuple[str, float]:
    from goqueue.model.units import size_bytes

    name, separator, number = text.partition("=")
    try:
        size = size_bytes(number) if name.endswith("byte_rate") else None
        value = float(number) if size is None else float(size)
    except ValueError:
        separator = ""
    if not separator or not math.isfinite(value):
        raise typer.BadParameter(f"{text!r} is not NAME=NUMBER, such as producer_byte_rate=5MB")
    return name, value


def _owner(named: Mapping[str, Any]) -> str:
    words = (("tenant", "tenant"), ("user", "user"), ("clientId", "client-id"), ("ip", "ip"))
    return ", ".join(f"{word} {named[key] or DEFAULT}" for key, word in words if key in named)


def _print(found: Mapping[str, Any], output: Output) -> None:
    if output is not Output.TABLE:
        print_document(found["quotas"], output)
        return
    rows = [
        {"of": _owner(quota), "name": name, "value": f"{value:.15g}"}
        for quota in found["quotas"]
        for name, value in quota["values"].items()
    ]
    if not rows:
        typer.echo("there are no quotas", err=True)
        return
    print_rows(rows, output, columns={"of": "Of", "name": "Quota", "value": "Per second"})
