"""`goqueue profile`: addresses, TLS and credentials by a name."""

import getpass
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from goqueue.cli.confirming import confirm
from goqueue.cli.examples import examples
from goqueue.cli.failures import CommandFailed
from goqueue.cli.options import Output, OutputOption
from goqueue.cli.output import print_document, print_rows

profile = typer.Typer(
    help="Keep addresses, TLS and credentials of brokers under names.", no_args_is_help=True
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile.")]
_SECRETS: Final = ("password", "api-key")
_HIDDEN: Final = "(hidden)"


def _option(name: str, text: str, metavar: str) -> Any:
    return typer.Option(name, metavar=metavar, help=text, show_default=False)


@profile.command(
    "create",
    epilog=examples(
        "goqueue profile create local --bootstrap localhost:9092 --username alice",
        "goqueue profile create prod --bootstrap b1:9092,b2:9092 --ca-file ca.crt --username me "
        "--password-command 'pass show goqueue' --use",
    ),
)
def create(
    name: NameArgument,
    address: Annotated[str, _option("--bootstrap", "Kafka address.", "HOST:PORT")] = "",
    url: Annotated[
        str, _option("--http", "HTTP address, where brokers do not tell it.", "URL")
    ] = "",
    tls: Annotated[
        bool, typer.Option("--tls", help="Speak TLS, and trust the CAs of this machine.")
    ] = False,
    ca: Annotated[str, _option("--ca-file", "Speak TLS, and trust these CAs.", "FILE")] = "",
    certificate: Annotated[
        str, _option("--certificate-file", "A certificate to show.", "FILE")
    ] = "",
    key: Annotated[str, _option("--key-file", "Its private key.", "FILE")] = "",
    user: Annotated[str, _option("--username", "Log in as this user.", "NAME")] = "",
    mechanism: Annotated[
        str, _option("--mechanism", "Of Kafka's log-in; SCRAM-SHA-256 if none.", "NAME")
    ] = "",
    password_file: Annotated[
        str, _option("--password-file", "Read its password there each time.", "FILE")
    ] = "",
    password_command: Annotated[
        str, _option("--password-command", "A command that prints its password.", "COMMAND")
    ] = "",
    password_env: Annotated[
        str, _option("--password-env", "A variable that has its password.", "NAME")
    ] = "",
    api_key_env: Annotated[
        str, _option("--api-key-env", "A variable that has an API key.", "NAME")
    ] = "",
    use: Annotated[bool, typer.Option("--use", help="Commands use it from now on.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="In place of one of this name.")] = (
        False
    ),
) -> None:
    """Make a profile. In a terminal the password is asked for and kept in it, unless it is
    elsewhere; the file can be read by you alone."""
    from goqueue.client.profiles import Profile, ProfilesFile, check_profile_name

    check_profile_name(name)
    file = ProfilesFile()
    if name in file.load().profiles and not replace:
        raise CommandFailed(f"there is a profile {name!r} already; say --replace to write it anew")
    made = Profile(
        bootstrap=address,
        http=url,
        tls=tls,
        ca_file=_absolute(ca, "--ca-file"),
        certificate_file=_absolute(certificate, "--certificate-file"),
        key_file=_absolute(key, "--key-file"),
        username=user,
        mechanism=mechanism.upper(),
        password_file=_absolute(password_file, "--password-file"),
        password_command=password_command,
        password_env=password_env,
        api_key_env=api_key_env,
    )
    if made == Profile():
        raise typer.BadParameter("say something of it: --bootstrap, --ca-file, --username, …")
    made.check(f"profile {name!r}")
    is_elsewhere = password_file or password_command or password_env
    if user and not is_elsewhere and sys.stdin.isatty():
        typed = getpass.getpass(f"Password of {user} (empty: asked for each time): ")
        made = msgspec.structs.replace(made, password=typed)
    file.put(name, made)
    if use:
        file.use(name)
    typer.echo(f"wrote profile {name} to {file.path}")
    if not use:
        typer.echo(f"use it: goqueue --profile {name} …, or always: goqueue profile use {name}")


@profile.command("use", epilog=examples("goqueue profile use production"))
def use(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="None: commands use none.", show_default=False),
    ] = None,
) -> None:
    """Let commands use a profile where none is named."""
    from goqueue.client.profiles import ProfilesFile

    ProfilesFile().use(name or "")
    typer.echo(f"commands use profile {name}" if name else "commands use no profile")


@profile.command("list", epilog=examples("goqueue profile list"))
def list_profiles(output: OutputOption = Output.TABLE) -> None:
    """List profiles, without their secrets."""
    from goqueue.client.profiles import ProfilesFile

    file = ProfilesFile()
    found = file.load()
    if output is Output.TABLE and not found.profiles:
        typer.echo(f"there are no profiles in {file.path}", err=True)
        return
    rows = [
        {
            "name": name,
            "inUse": name == found.current,
            "bootstrap": each.bootstrap or None,
            "http": each.http or None,
            "tls": each.has_tls,
            "username": each.username or None,
        }
        for name, each in sorted(found.profiles.items())
    ]
    columns = {
        "name": "Profile",
        "inUse": "In use",
        "bootstrap": "Bootstrap",
        "http": "HTTP",
        "tls": "TLS",
        "username": "User",
    }
    print_rows(rows, output, columns=columns)


@profile.command("show", epilog=examples("goqueue profile show production"))
def show(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Of a profile.", show_default="the one in use"),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a profile, without its secrets."""
    from goqueue.client.profiles import ProfilesFile

    file = ProfilesFile()
    found = file.chosen(name)
    if found is None:
        raise CommandFailed("no profile is in use; see `goqueue profile list`")
    told = {
        field: _HIDDEN if field in _SECRETS else value
        for field, value in msgspec.to_builtins(found).items()
    }
    if output is Output.TABLE:
        rows = [{"field": field, "value": value} for field, value in told.items()]
        print_rows(rows, output, columns={"field": "Field", "value": "Value"})
    else:
        print_document(told, output)


@profile.command("delete", epilog=examples("goqueue profile delete old --yes"))
def delete(
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a profile; nothing changes at the broker."""
    from goqueue.client.profiles import ProfilesFile

    file = ProfilesFile()
    file.find(name)
    confirm(f"Delete profile {name}, with what it has of passwords?", yes=yes)
    file.delete(name)
    typer.echo(f"deleted profile {name}")


def _absolute(text: str, option: str) -> str:
    """Profiles are used in other folders, too."""
    if not text:
        return ""
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise typer.BadParameter(f"{text}: there is no such file", param_hint=option)
    return str(path)
