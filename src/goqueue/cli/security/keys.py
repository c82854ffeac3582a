"""`goqueue keys`: keys for HTTP and SQS."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from goqueue.cli.confirming import confirm
from goqueue.cli.examples import examples
from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.moments import format_moment
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_document, print_rows
from goqueue.cli.security.connecting import connection
from goqueue.cli.security.key_examples import api_example, sqs_example

keys = typer.Typer(help="Make, list and revoke keys for HTTP and SQS.", no_args_is_help=True)

_COLUMNS: Final = {
    "id": "Key",
    "kind": "Kind",
    "user": "User",
    "label": "Label",
    "created": "Created",
    "expires": "Ends",
}


class KeyKind(StrEnum):
    API = "api"
    SQS = "sqs"


@keys.command(
    "create",
    epilog=examples(
        "goqueue keys create alice --kind sqs",
        "goqueue keys create robot --kind api --label deployment --expires-in '90 days'",
    ),
)
def create(
    user: Annotated[str, typer.Argument(metavar="USER", help="Whom the key stands for.")],
    kind: Annotated[
        KeyKind,
        typer.Option("--kind", "-k", help="api: HTTP, registry, metrics. sqs: AWS clients."),
    ] = KeyKind.API,
    label: Annotated[str, typer.Option(help="What it is for.", show_default=False)] = "",
    expires_in: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="90 days, 12h, …", show_default="never"),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a key. Its secret is shown once, with lines to use it by."""
    from goqueue.cli.options import duration_option_ms

    body: dict[str, Any] = {"kind": kind.value}
    if label:
        body["label"] = label
    if expires_in is not None:
        body["expiresIn"] = duration_option_ms(expires_in)
    api = http_api(bootstrap, http)
    made = api.post("users", user, "keys", body=body)
    if output is not Output.TABLE:
        print_document(made, output)
        return
    ca_file = connection().profile().ca_file
    typer.echo(f"created {kind.value} key {made['id']} of {user}; its secret is not shown again.")
    if kind is KeyKind.SQS:
        typer.echo(sqs_example(made["id"], made["secret"], api.url, ca_file))
    else:
        typer.echo(api_example(made["token"], api.url, ca_file))


@keys.command("list", epilog=examples("goqueue keys list --user alice"))
def list_keys(
    user: Annotated[
        str | None, typer.Option(help="Keys of this one.", show_default="all one may see")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List keys, without their secrets."""
    found = http_api(bootstrap, http).get("keys", user=user)["keys"]
    if output is Output.TABLE and not found:
        typer.echo("there are no such keys", err=True)
        return
    print_keys(found, output)


@keys.command("delete", epilog=examples("goqueue keys delete k3f9 --yes"))
def delete(
    ids: Annotated[list[str], typer.Argument(metavar="KEY...", help="Keys by their ids.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Revoke keys: who uses them is refused from now on."""
    api = http_api(bootstrap, http)
    confirm(f"Revoke {', '.join(ids)} for good?", yes=yes)
    for each in ids:
        api.delete("keys", each)
        typer.echo(f"deleted key {each}")


def print_keys(found: Sequence[dict[str, Any]], output: Output) -> None:
    if output is not Output.TABLE:
        print_rows(found, output, columns=_COLUMNS)
        return
    rows = [
        {
            **each,
            "label": each.get("label") or None,
            "created": format_moment(each["createdMs"]),
            "expires": format_moment(each["expiresMs"]) if each.get("expiresMs") else "never",
        }
        for each in found
    ]
    print_rows(rows, output, columns=_COLUMNS)
