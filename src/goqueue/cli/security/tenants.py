"""`goqueue tenants`: users and things that know nothing of those of others."""

import math
from typing import Annotated, Any, Final

import typer

from goqueue.cli.confirming import confirm
from goqueue.cli.examples import examples
from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.moments import format_moment
from goqueue.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Output,
    OutputOption,
    parse_assignments,
)
from goqueue.cli.output import print_document, print_rows

tenants = typer.Typer(help="Make, limit and delete tenants.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the tenant.")]
LimitsOption = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="NAME=VALUE", help="Such as topics=100; can be repeated."),
]
_COLUMNS: Final = {"name": "Tenant", "shown": "Limits", "created": "Created"}


@tenants.command(
    "create",
    epilog=examples("goqueue tenants create acme", "goqueue tenants create acme --limit topics=50"),
)
def create(
    name: NameArgument,
    limits: LimitsOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a tenant. Its users are made with `goqueue users create --tenant`."""
    body: dict[str, Any] = {"name": name}
    if limits:
        body["limits"] = _numbers(limits)
    made = http_api(bootstrap, http).post("tenants", body=body)
    if output is not Output.TABLE:
        print_document(made, output)
        return
    typer.echo(
        f"created tenant {name}; its first user: goqueue users create NAME --tenant {name} --admin"
    )


@tenants.command("list", epilog=examples("goqueue tenants list -o json"))
def list_tenants(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List tenants; the default one, which has no name, is always there."""
    _print(http_api(bootstrap, http).get("tenants")["tenants"], output)


@tenants.command("show", epilog=examples("goqueue tenants show acme"))
def show(
    name: NameArgument,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a tenant and its limits."""
    found = http_api(bootstrap, http).get("tenants", name)
    if output is Output.TABLE:
        _print([found], output)
    else:
        print_document(found, output)


@tenants.command(
    "limit",
    epilog=examples("goqueue tenants limit acme --set topics=100 --unset partitions"),
)
def limit(
    name: NameArgument,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A limit; can be repeated."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="NAME", help="No such limit; can be repeated."),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change what a tenant may use."""
    changes = {**dict.fromkeys(unset or ()), **_numbers(settings)}
    if not changes:
        raise typer.BadParameter("say what: --set NAME=VALUE or --unset NAME")
    found = http_api(bootstrap, http).patch("tenants", name, body={"limits": changes})
    if output is Output.TABLE:
        _print([found], output)
    else:
        print_document(found, output)


@tenants.command("usage", epilog=examples("goqueue tenants usage acme"))
def usage(
    name: NameArgument,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a tenant uses, beside its limits."""
    api = http_api(bootstrap, http)
    used: dict[str, Any] = api.get("tenants", name, "usage")
    if output is not Output.TABLE:
        print_document(used, output)
        return
    limits: dict[str, float] = api.get("tenants", name)["limits"]
    rows = [
        {"name": each, "used": used.get(each), "limit": _whole(limits.get(each))}
        for each in dict.fromkeys([*used, *limits])
    ]
    print_rows(rows, output, columns={"name": "What", "used": "Used", "limit": "Limit"})


@tenants.command("delete", epilog=examples("goqueue tenants delete acme --yes"))
def delete(
    name: NameArgument,
    force: Annotated[
        bool,
        typer.Option("--force", help="With its users, topics, groups and subjects, if it has any."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Delete a tenant; one that has something only by force."""
    api = http_api(bootstrap, http)
    what = ", with everything that it has" if force else ""
    confirm(f"Delete tenant {name}{what} for good?", yes=yes)
    api.delete("tenants", name, force="true" if force else None)
    typer.echo(f"deleted tenant {name}")


def _print(found: list[dict[str, Any]], output: Output) -> None:
    if output is not Output.TABLE:
        print_rows(found, output, columns=_COLUMNS)
        return
    if not found:
        typer.echo("there is only the default tenant", err=True)
        return
    rows = [
        {
            "name": each["name"],
            "shown": [f"{name}={_plain(value)}" for name, value in each["limits"].items()] or None,
            "created": format_moment(each["createdMs"]),
        }
        for each in found
    ]
    print_rows(rows, output, columns=_COLUMNS)


def _numbers(texts: list[str] | None) -> dict[str, float]:
    """Durations and sizes as people write them."""
    from goqueue.model.units import in_plain_units

    found = {}
    for name, text in parse_assignments(texts, "--limit").items():
        # `storage_bytes=5GB` as elsewhere `….bytes=5GB`.
        number = in_plain_units(name.replace("_", "."), text)
        try:
            found[name] = float(number)
        except ValueError:
            found[name] = math.nan
        if not math.isfinite(found[name]):
            raise typer.BadParameter(f"{name}: {text!r} is not a number")
    return found


def _plain(value: float) -> str:
    return str(_whole(value))


def _whole(value: float | None) -> float | None:
    return int(value) if value is not None and value == int(value) else value
