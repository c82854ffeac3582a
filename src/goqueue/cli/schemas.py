"""`goqueue schemas`: the schema registry by hand."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from goqueue.cli.examples import examples
from goqueue.cli.failures import CommandFailed
from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_document, print_rows

if TYPE_CHECKING:
    from goqueue.client.http_api import HttpApi

schemas = typer.Typer(help="Register schemas, and look at them.", no_args_is_help=True)
config = typer.Typer(help="Which changes of a schema are allowed.", no_args_is_help=True)
mode = typer.Typer(help="Whether schemas can be registered and deleted.", no_args_is_help=True)
contexts = typer.Typer(help="Registries within the registry.", no_args_is_help=True)
schemas.add_typer(config, name="config")
schemas.add_typer(mode, name="mode")
schemas.add_typer(contexts, name="contexts")

# What the file's name says about the language, when --type does not.
_TYPE_OF_SUFFIX: Final = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
# The registry gives out as many at a time.
_PAGE: Final = 1_000

FileArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="The schema; - reads standard input.", allow_dash=True),
]
SubjectArgument = Annotated[str, typer.Argument(metavar="SUBJECT", help="Such as orders-value.")]
SubjectOption = Annotated[
    str, typer.Option("--subject", "-s", help="Such as orders-value, for values of topic orders.")
]
ScopeOption = Annotated[
    str | None,
    typer.Option(
        "--subject",
        "-s",
        help="This subject only; without it, the context. :.__GLOBAL: is for all contexts.",
        show_default=False,
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        help="Context of subjects and ids; :.staging:orders-value names its own.",
        show_default=False,
    ),
]
VersionOption = Annotated[str, typer.Option("--version", help="A number, or latest.")]
TypeOption = Annotated[
    str | None,
    typer.Option(
        "--type",
        "-t",
        help="AVRO, JSON or PROTOBUF; else by the file's name (.avsc, .json, .proto).",
        show_default=False,
    ),
]
ReferenceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        "-r",
        metavar="NAME=SUBJECT:VERSION",
        help="A schema that this one uses, and by which name; can be repeated.",
    ),
]


@schemas.command("list", epilog=examples("goqueue schemas list --prefix orders"))
def list_schemas(
    prefix: Annotated[
        str, typer.Option("--prefix", help="Only subjects that begin with this.")
    ] = "",
    every_version: Annotated[
        bool, typer.Option("--all", help="All versions, not only the latest.")
    ] = False,
    deleted: Annotated[bool, typer.Option("--deleted", help="Deleted versions as well.")] = False,
    context: ContextOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """The latest schema of every subject, in all contexts or in one."""
    api = _registry(bootstrap, http, context)
    if context is None and not prefix.startswith(":"):
        prefix = f":*:{prefix}"
    found: list[dict[str, Any]] = []
    while len(found) % _PAGE == 0:
        page = api.get(
            "schemas",
            subjectPrefix=prefix,
            latestOnly=str(not every_version).lower(),
            deleted=str(deleted).lower(),
            offset=len(found),
        )
        found += page
        if not page:
            break
    for row in found:
        row.setdefault("schemaType", "AVRO")
        row["uses"] = [reference["subject"] for reference in row.get("references", ())]
        row.setdefault("deleted", False)
    columns = {"subject": "Subject", "version": "Version", "id": "Id", "schemaType": "Type"}
    columns |= {"uses": "Uses"} | ({"deleted": "Deleted"} if deleted else {})
    print_rows(found, output, columns=columns)


@schemas.command(
    "show", epilog=examples("goqueue schemas show orders-value", "goqueue schemas show --id 1")
)
def show(
    subject: Annotated[
        str | None,
        typer.Argument(metavar="[SUBJECT]", help="Such as orders-value.", show_default=False),
    ] = None,
    version: VersionOption = "latest",
    schema_id: Annotated[
        int | None,
        typer.Option(
            "--id",
            min=1,
            help="The schema with this id, instead of a subject's.",
            show_default=False,
        ),
    ] = None,
    context: ContextOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """A schema's text, by subject or by id; with -o json or yaml, all that is known of it."""
    if (subject is None) == (schema_id is None):
        raise typer.BadParameter("name a subject, or an id with --id")
    api = _registry(bootstrap, http, context)
    if subject is not None:
        found = api.get("subjects", subject, "versions", version)
    else:
        found = api.get("schemas", "ids", str(schema_id))
    if output is Output.TABLE:
        typer.echo(_readable(found["schema"]))
    else:
        print_document(found, output)


@schemas.command(
    "register",
    epilog=examples(
        "goqueue schemas register order.avsc --subject orders-value",
        "goqueue schemas register customer.proto -s customers-value -r address.proto=address:1",
    ),
)
def register(
    file: FileArgument,
    subject: SubjectOption,
    schema_type: TypeOption = None,
    references: ReferenceOption = None,
    normalize: Annotated[bool, typer.Option(help="Ignore differences in writing.")] = False,
    context: ContextOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Register a schema under a subject, if it is compatible; prints its id and version."""
    answer = _registry(bootstrap, http, context).post(
        "subjects",
        subject,
        "versions",
        body=_body(file, schema_type, references),
        normalize=str(normalize).lower(),
    )
    row = {"subject": subject, **answer}
    print_rows([row], output, columns={"subject": "Subject", "version": "Version", "id": "Id"})


@schemas.command(
    "check", epilog=examples("goqueue schemas check order-v2.avsc --subject orders-value")
)
def check(
    file: FileArgument,
    subject: SubjectOption,
    version: Annotated[
        str | None,
        typer.Option("--version", help="Against this one; else as registering would."),
    ] = None,
    schema_type: TypeOption = None,
    references: ReferenceOption = None,
    context: ContextOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Say whether a schema could be registered; exits with 1 and the reasons if not."""
    path = ["compatibility", "subjects", subject, "versions", *([version] if version else [])]
    answer = _registry(bootstrap, http, context).post(
        *path, body=_body(file, schema_type, references), verbose="true"
    )
    if answer["is_compatible"]:
        typer.echo(f"compatible with {subject}")
        return
    for message in answer.get("messages", ()):
        typer.echo(message, err=True)
    raise CommandFailed(f"{file} is not compatible with {subject}")


@schemas.command("delete", epilog=examples("goqueue schemas delete orders-value --version 1"))
def delete(
    subject: SubjectArgument,
    version: Annotated[
        str | None, typer.Option("--version", help="This one only.", show_default=False)
    ] = None,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="For good; after it was deleted without this.")
    ] = False,
    context: ContextOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Delete a subject, or one version; until --permanent, it can still be read by id."""
    path = ["subjects", subject, *(["versions", version] if version else [])]
    gone = _registry(bootstrap, http, context).delete(*path, permanent=str(permanent).lower())
    numbers = gone if isinstance(gone, list) else [gone]
    how = "deleted for good" if permanent else "deleted"
    typer.echo(f"{how}: {subject} version {', '.join(map(str, numbers))}")


@schemas.command("stats", epilog=examples("goqueue schemas stats"))
def stats(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """How much is registered."""
    answer = http_api(bootstrap, http).get("schemas", "stats")
    columns = {
        "contexts": "Contexts",
        "subjects": "Subjects",
        "versions": "Versions",
        "deletedVersions": "Deleted versions",
        "schemas": "Schemas",
        "compatibilityLevel": "Compatibility",
        "mode": "Mode",
    }
    print_rows([answer], output, columns=columns)


# --- config and mode ----------------------------------------------------------------------


@config.command("get", epilog=examples("goqueue schemas config get --subject orders-value"))
def get_config(
    subject: ScopeOption = None,
    context: ContextOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """What counts for a subject, or in a context."""
    found = _registry(bootstrap, http, context).get(
        "config", *_scope(subject), defaultToGlobal="true"
    )
    row = {"normalize": False, "alias": None, "compatibilityGroup": None, **found}
    columns = {"compatibilityLevel": "Compatibility", "normalize": "Normalize"}
    print_rows([row], output, columns=columns | {"alias": "Alias"})


@config.command("set", epilog=examples("goqueue schemas config set FULL --subject orders-value"))
def set_config(
    level: Annotated[
        str | None,
        typer.Argument(
            metavar="LEVEL",
            help="NONE, BACKWARD, FORWARD or FULL, or one of them with _TRANSITIVE.",
            show_default=False,
        ),
    ] = None,
    subject: ScopeOption = None,
    normalize: Annotated[
        bool | None, typer.Option(help="Ignore differences in writing.", show_default=False)
    ] = None,
    alias: Annotated[
        str | None, typer.Option(help="The subject that this one stands for.", show_default=False)
    ] = None,
    context: ContextOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Set what counts for a subject, or in a context; what is not given stays."""
    given = {"compatibility": level and level.upper(), "normalize": normalize, "alias": alias}
    body = {name: value for name, value in given.items() if value is not None}
    if not body:
        raise typer.BadParameter("give a LEVEL, --normalize or --alias")
    _registry(bootstrap, http, context).put("config", *_scope(subject), body=body)
    typer.echo(f"set for {subject or _whole(context)}: {json.dumps(body)}")


@config.command("unset", epilog=examples("goqueue schemas config unset --subject orders-value"))
def unset_config(
    subject: ScopeOption = None,
    context: ContextOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Remove what is set for a subject, or in a context: then the wider scope's counts again."""
    _registry(bootstrap, http, context).delete("config", *_scope(subject))
    typer.echo(f"unset for {subject or _whole(context)}")


@mode.command("get", epilog=examples("goqueue schemas mode get"))
def get_mode(
    subject: ScopeOption = None,
    context: ContextOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """The mode of a subject, or of a context."""
    found = _registry(bootstrap, http, context).get(
        "mode", *_scope(subject), defaultToGlobal="true"
    )
    print_rows([found], output, columns={"mode": "Mode"})


@mode.command("set", epilog=examples("goqueue schemas mode set READONLY --subject orders-value"))
def set_mode(
    wanted: Annotated[
        str,
        typer.Argument(metavar="MODE", help="READWRITE, READONLY, READONLY_OVERRIDE or IMPORT."),
    ],
    subject: ScopeOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="IMPORT although schemas are registered.")
    ] = False,
    context: ContextOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Set the mode of a subject or a context. IMPORT takes ids and versions from elsewhere."""
    body = {"mode": wanted.upper()}
    _registry(bootstrap, http, context).put(
        "mode", *_scope(subject), body=body, force=str(force).lower()
    )
    typer.echo(f"set for {subject or _whole(context)}: {body['mode']}")


# --- contexts -----------------------------------------------------------------------------


@contexts.command("list", epilog=examples("goqueue schemas contexts list"))
def list_contexts(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """The contexts with schemas; . is the default one."""
    rows = [{"context": name} for name in http_api(bootstrap, http).get("contexts")]
    print_rows(rows, output, columns={"context": "Context"})


@contexts.command("delete", epilog=examples("goqueue schemas contexts delete .staging"))
def delete_context(
    name: Annotated[str, typer.Argument(metavar="CONTEXT", help="Such as .staging.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
) -> None:
    """Delete a context whose subjects have been deleted for good, with all that is set in it."""
    http_api(bootstrap, http).delete("contexts", name)
    typer.echo(f"deleted: context {name}")


# --- what a schema is sent as -------------------------------------------------------------


def _registry(bootstrap: str, http: str | None, context: str | None) -> "HttpApi":
    api = http_api(bootstrap, http)
    return api if context is None else api.within("contexts", context)


def _whole(context: str | None) -> str:
    return "the default context" if context is None else f"context {context}"


def _scope(subject: str | None) -> list[str]:
    return [] if subject is None else [subject]


def _body(file: Path, schema_type: str | None, references: list[str] | None) -> dict[str, object]:
    kind = schema_type or _TYPE_OF_SUFFIX.get(file.suffix)
    if kind is None:
        raise typer.BadParameter(
            f"the name {file} does not say; give AVRO, JSON or PROTOBUF", param_hint="--type"
        )
    try:
        text = typer.get_text_stream("stdin").read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{file} cannot be read: {error}") from None
    used = [_reference(text) for text in references or ()]
    return {"schema": text, "schemaType": kind.upper(), "references": used}


def _reference(text: str) -> dict[str, object]:
    name, _, place = text.rpartition("=")
    subject, _, version = place.rpartition(":")
    if not (name and subject and version.isdecimal()):
        raise typer.BadParameter(
            f"{text!r} is not of the form NAME=SUBJECT:VERSION", param_hint="--reference"
        )
    return {"name": name, "subject": subject, "version": int(version)}


def _readable(text: str) -> str:
    """JSON with its lines broken; anything else as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text.rstrip("\n")
