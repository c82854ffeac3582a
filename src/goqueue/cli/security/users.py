"""`goqueue users`: who can log in."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from goqueue.cli.confirming import confirm
from goqueue.cli.examples import examples
from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.moments import format_moment
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_document, print_rows
from goqueue.cli.security.passwords import (
    GenerateOption,
    NewPasswordFileOption,
    PasswordOption,
    new_password,
    tell_generated,
)

users = typer.Typer(help="Make, change and delete users.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_COLUMNS: Final = {
    "name": "User",
    "tenant": "Tenant",
    "admin": "Admin",
    "federated": "Federated",
    "mechanisms": "Mechanisms",
    "created": "Created",
}


@users.command(
    "create",
    epilog=examples(
        "goqueue users create alice",
        "goqueue users create robot --generate",
        "goqueue users create carol --federated --without-password",
        "goqueue users create --admin root --data-dir data",
    ),
)
def create(
    name: NameArgument,
    admin: Annotated[bool, typer.Option("--admin", help="It may do everything.")] = False,
    tenant: Annotated[
        str, typer.Option(help="The tenant that it belongs to.", show_default="none")
    ] = "",
    federated: Annotated[
        bool,
        typer.Option("--federated", help="It is who certificates or tokens tell this name of."),
    ] = False,
    new_password_file: NewPasswordFileOption = None,
    typed: PasswordOption = None,
    generate: GenerateOption = False,
    without_password: Annotated[
        bool,
        typer.Option("--without-password", help="It logs in by keys, certificates or tokens only."),
    ] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Of a broker that is stopped: the user is written there, and nobody is asked.",
            show_default=False,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="etcd://HOST:PORT[,HOST:PORT…]",
            help="Of a cluster: the user is written to its etcd, and no broker is asked.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file with the settings of that broker.", show_default=False),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a user.

    The first administrator is made while the broker is stopped, with --data-dir (or --cluster), or
    by security.bootstrap.file. Others are made at the running broker, by an administrator.
    """
    is_offline = bool(data_dir or cluster or config)
    if without_password and (typed or new_password_file or generate):
        raise typer.BadParameter("--without-password goes with no password")
    chosen = (
        None
        if without_password
        else new_password(name, file=new_password_file, typed=typed, generate=generate)
    )
    if is_offline:
        from goqueue.cli.security.stopped_users import create_stopped

        found = create_stopped(
            name,
            None if chosen is None else chosen.text,
            is_admin=admin,
            tenant=tenant,
            data_dir=data_dir,
            cluster=cluster,
            config_file=config,
            is_federated=federated,
        )
    else:
        body: dict[str, Any] = {"name": name, "admin": admin}
        if federated:
            body["federated"] = True
        if tenant:
            body["tenant"] = tenant
        if chosen is not None:
            body["password"] = chosen.text
        found = http_api(bootstrap, http).post("users", body=body)
    if output is not Output.TABLE:
        shown = found if chosen is None or not chosen.is_generated else {
            **found, "password": chosen.text
        }  # fmt: skip
        print_document(shown, output)
        return
    typer.echo(f"created {_title(found)}")
    if chosen is not None:
        tell_generated(name, chosen)


@users.command("list", epilog=examples("goqueue users list -o json"))
def list_users(
    tenant: Annotated[
        str | None, typer.Option(help="Only those of this tenant.", show_default="all")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List users; never their passwords, which nobody knows."""
    found = http_api(bootstrap, http).get("users")["users"]
    print_users([each for each in found if tenant in (None, each["tenant"])], output)


@users.command("show", epilog=examples("goqueue users show alice"))
def show(
    name: NameArgument,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a user, with its keys and rules."""
    api = http_api(bootstrap, http)
    user = api.get("users", name)
    keys = api.get("keys", user=name)["keys"]
    rules = api.get("rules", principal=f"User:{name}")["rules"]
    if output is not Output.TABLE:
        print_document({**user, "keys": keys, "rules": rules}, output)
        return
    from goqueue.cli.security.acls import print_rules
    from goqueue.cli.security.keys import print_keys

    print_users([user], output)
    if keys:
        typer.echo()
        print_keys(keys, output)
    if rules:
        typer.echo()
        print_rules(rules, output)


@users.command("passwd", epilog=examples("goqueue users passwd alice"))
def passwd(
    name: NameArgument,
    new_password_file: NewPasswordFileOption = None,
    typed: PasswordOption = None,
    generate: GenerateOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Give a user another password: oneself, or anybody as an administrator."""
    chosen = new_password(name, file=new_password_file, typed=typed, generate=generate)
    http_api(bootstrap, http).patch("users", name, body={"password": chosen.text})
    typer.echo(f"{name} has another password")
    tell_generated(name, chosen)


@users.command("promote", epilog=examples("goqueue users promote alice"))
def promote(
    name: NameArgument, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, http: HttpOption = None
) -> None:
    """Make a user an administrator, who may do everything."""
    http_api(bootstrap, http).patch("users", name, body={"admin": True})
    typer.echo(f"{name} is an administrator")


@users.command("demote", epilog=examples("goqueue users demote alice"))
def demote(
    name: NameArgument,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Let an administrator be a user whom rules hold for."""
    api = http_api(bootstrap, http)
    confirm(f"{name} may then do only what rules allow. Go on?", yes=yes)
    api.patch("users", name, body={"admin": False})
    typer.echo(f"{name} is an administrator no more")


@users.command(
    "federate",
    epilog=examples("goqueue users federate carol", "goqueue users federate carol --off"),
)
def federate(
    name: NameArgument,
    off: Annotated[bool, typer.Option("--off", help="From now on it is not.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Let a user be who certificates or an identity provider's tokens tell its name of.

    Otherwise whoever they tell its name of is somebody else, and has none of its rights.
    """
    http_api(bootstrap, http).patch("users", name, body={"federated": not off})
    typer.echo(f"{name} is {'no more' if off else 'now'} meant by names from outside")


@users.command("delete", epilog=examples("goqueue users delete alice --yes"))
def delete(
    name: NameArgument,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Delete a user: it is refused from now on, also on connections that are open.

    Rules that name it stay: `goqueue acls remove --principal User:NAME` removes them.
    """
    api = http_api(bootstrap, http)
    confirm(f"Delete user {name} for good, with its keys?", yes=yes)
    api.delete("users", name)
    typer.echo(f"deleted user {name}")


def print_users(found: list[dict[str, Any]], output: Output) -> None:
    if output is Output.TABLE:
        rows = [
            {
                **each,
                "tenant": each["tenant"] or None,
                "mechanisms": each["mechanisms"] or None,
                "created": format_moment(each["createdMs"]),
            }
            for each in found
        ]
        print_rows(rows, output, columns=_COLUMNS)
    else:
        print_rows(found, output, columns=_COLUMNS)


def _title(user: dict[str, Any]) -> str:
    kind = "administrator" if user["admin"] else "user"
    return f"{kind} {user['name']}" + (f" of tenant {user['tenant']}" if user["tenant"] else "")
