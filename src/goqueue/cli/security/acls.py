"""`goqueue acls`: rules that say who may do what."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from goqueue.cli.confirming import confirm
from goqueue.cli.examples import examples
from goqueue.cli.http_access import HttpOption, http_api
from goqueue.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption
from goqueue.cli.output import print_rows
from goqueue.cli.security.rule_words import (
    NamedThings,
    Operation,
    full_principal,
    role_rules,
    rules_for,
)

if TYPE_CHECKING:
    from goqueue.client.http_api import HttpApi

acls = typer.Typer(
    help="Allow and forbid: rules of who may do what with which things.", no_args_is_help=True
)

TopicOption = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="NAME", help="A topic or queue; * is all.", show_default=False),
]
GroupOption = Annotated[
    list[str] | None,
    typer.Option(
        "--group", metavar="NAME", help="A consumer group or queue group.", show_default=False
    ),
]
TransactionalIdOption = Annotated[
    list[str] | None,
    typer.Option(
        "--transactional-id", metavar="ID", help="A transactional id.", show_default=False
    ),
]
SubjectOption = Annotated[
    list[str] | None,
    typer.Option(
        "--subject", metavar="NAME", help="A subject of the schema registry.", show_default=False
    ),
]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="The cluster as a whole.")]
OperationOption = Annotated[
    list[Operation] | None,
    typer.Option("--operation", help="Can be repeated.", show_default="all"),
]
# As many as the broker takes in one request.
_AT_ONCE: Final = 100
_COLUMNS: Final = {
    "permission": "Permission",
    "principal": "Principal",
    "operation": "Operation",
    "resource": "Resource",
    "name": "Name",
    "pattern": "Pattern",
    "host": "Host",
}


class PatternChoice(StrEnum):
    ANY = "any"
    MATCH = "match"
    LITERAL = "literal"
    PREFIXED = "prefixed"


PatternOption = Annotated[
    PatternChoice,
    typer.Option(
        "--pattern",
        help="Which rules a name means: those that are written so, or with match all that count "
        "for a thing of this name.",
    ),
]
PrincipalOption = Annotated[
    str | None,
    typer.Option("--principal", metavar="User:NAME", help="Rules of this one.", show_default="all"),
]


class PermissionChoice(StrEnum):
    ALLOW = "allow"
    DENY = "deny"


PermissionOption = Annotated[
    PermissionChoice | None,
    typer.Option("--permission", help="Only such rules.", show_default="both"),
]


@acls.command(
    "add",
    epilog=examples(
        "goqueue acls add --allow User:alice --producer --topic orders",
        "goqueue acls add --allow User:bob --consumer --topic orders --group billing",
        "goqueue acls add --allow User:carol --operation read --topic logs- --prefixed",
        "goqueue acls add --deny 'User:*' --host 192.0.2.7 --topic '*'",
    ),
)
def add(
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="User:NAME", help="Who may; User:* is everybody."),
    ] = None,
    deny: Annotated[
        list[str] | None,
        typer.Option("--deny", metavar="User:NAME", help="Who must not; this wins."),
    ] = None,
    operation: OperationOption = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TransactionalIdOption = None,
    subject: SubjectOption = None,
    cluster: ClusterOption = False,
    prefixed: Annotated[
        bool, typer.Option("--prefixed", help="Names are the beginnings of names.")
    ] = False,
    host: Annotated[str, typer.Option(help="Only from this IP address.", show_default="all")] = "*",
    producer: Annotated[
        bool,
        typer.Option("--producer", help="What it takes to write to the topics."),
    ] = False,
    consumer: Annotated[
        bool,
        typer.Option("--consumer", help="What it takes to read the topics in the groups."),
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Add rules. Those that are there already stay; a rule that denies wins over all that allow."""
    if not allow and not deny:
        raise typer.BadParameter("say who: --allow User:NAME or --deny User:NAME")
    things = NamedThings(topic, group, transactional_id, subject, cluster, prefixed)
    if producer or consumer:
        if operation or deny:
            raise typer.BadParameter(
                "--producer and --consumer say which operations are allowed; they go with neither "
                "--operation nor --deny"
            )
        made = role_rules(things, producer=producer, consumer=consumer)
    else:
        made = rules_for(things, operation or [Operation.ALL])
    rules = [
        {**rule, "principal": full_principal(who), "host": host, "permission": permission}
        for permission, principals in (("allow", allow or ()), ("deny", deny or ()))
        for who in principals
        for rule in made
    ]
    api = http_api(bootstrap, http)
    for first in range(0, len(rules), _AT_ONCE):
        api.post("rules", body={"rules": rules[first : first + _AT_ONCE]})
    if output is Output.TABLE:
        typer.echo(f"added {_count(rules)}:")
    print_rules(rules, output)


@acls.command("list", epilog=examples("goqueue acls list --topic orders --pattern match"))
def list_rules(
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TransactionalIdOption = None,
    subject: SubjectOption = None,
    cluster: ClusterOption = False,
    pattern: PatternOption = PatternChoice.ANY,
    principal: PrincipalOption = None,
    operation: OperationOption = None,
    permission: PermissionOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List rules."""
    things = NamedThings(topic, group, transactional_id, subject, cluster)
    queries = _queries(things, pattern, principal, operation, permission)
    found = _matching(http_api(bootstrap, http), queries)
    if output is Output.TABLE and not found:
        typer.echo("there are no such rules", err=True)
        return
    print_rules(found, output)


@acls.command(
    "remove",
    epilog=examples(
        "goqueue acls remove --principal User:alice",
        "goqueue acls remove --topic orders --operation write --yes",
    ),
)
def remove(
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TransactionalIdOption = None,
    subject: SubjectOption = None,
    cluster: ClusterOption = False,
    pattern: PatternOption = PatternChoice.ANY,
    principal: PrincipalOption = None,
    operation: OperationOption = None,
    permission: PermissionOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove rules; they hold no more, also on connections that are open."""
    things = NamedThings(topic, group, transactional_id, subject, cluster)
    queries = _queries(things, pattern, principal, operation, permission)
    if queries == [{}]:
        raise typer.BadParameter("say which: --topic, --group, --principal and the like")
    api = http_api(bootstrap, http)
    meant = _matching(api, queries)
    if not meant:
        typer.echo("there are no such rules", err=True)
        return
    if not yes:
        print_rules(meant, Output.TABLE)
    confirm(f"Remove {_count(meant)}?", yes=yes)
    gone: list[dict[str, Any]] = []
    for query in queries:
        gone += api.delete("rules", **query)["deleted"]
    if output is Output.TABLE:
        typer.echo(f"removed {_count(gone)}:")
    print_rules(gone, output)


def print_rules(rules: Sequence[dict[str, Any]], output: Output) -> None:
    print_rows(rules, output, columns=_COLUMNS)


def _queries(
    things: NamedThings,
    pattern: PatternChoice,
    principal: str | None,
    operations: Sequence[Operation] | None,
    permission: PermissionChoice | None,
) -> list[dict[str, str]]:
    """A query says one of each: several names and operations are several queries."""
    shared: dict[str, str] = {}
    if pattern is not PatternChoice.ANY:
        shared["pattern"] = pattern.value
    if principal is not None:
        shared["principal"] = full_principal(principal)
    if permission is not None:
        shared["permission"] = permission.value
    named = [{"resource": kind, "name": name} for kind, name in things.pairs()] or [{}]
    verbs = [{"operation": each.value} for each in operations or ()] or [{}]
    return [{**shared, **thing, **verb} for thing in named for verb in verbs]


def _matching(api: "HttpApi", queries: Sequence[dict[str, str]]) -> list[dict[str, Any]]:
    """Each once, by however many queries it is found."""
    found: list[dict[str, Any]] = []
    for query in queries:
        found += [each for each in api.get("rules", **query)["rules"] if each not in found]
    return found


def _count(rules: Sequence[object]) -> str:
    return f"{len(rules)} rule" + ("" if len(rules) == 1 else "s")
