"""What a request brings: the parts of its path, its query, its body."""

import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar
from urllib.parse import parse_qs

import msgspec

from goqueue.doors.registry.errors import HttpRefusal
from goqueue.model.caller import Caller
from goqueue.model.digits import number_in
from goqueue.model.errors import SubjectAccessDenied
from goqueue.model.schemas.contexts import (
    ALL_CONTEXTS,
    DEFAULT_CONTEXT,
    GLOBAL_SCOPE,
    qualified,
    scope_of,
)
from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal, invalid_schema
from goqueue.model.schemas.formats import SchemaType
from goqueue.model.schemas.messages import NewSchema, Reference
from goqueue.model.schemas.tenant_subjects import inner_subject
from goqueue.service.broker_service import BrokerService

T = TypeVar("T")

VERSION_MAX: Final = 2**31 - 1
# What a prefix of subjects begins with that says where they are.
_ANY_CONTEXT: Final = (":.", ALL_CONTEXTS)
_SORTED: Final = msgspec.json.Encoder(order="deterministic")


class Query:
    """Parameters that are not known are passed over, as Confluent's registry does."""

    def __init__(self, text: bytes) -> None:
        try:
            self._values = parse_qs(text.decode("ascii"), keep_blank_values=True, errors="strict")
        except ValueError:
            raise HttpRefusal(400, "the query is not percent-encoded UTF-8") from None

    def text(self, name: str) -> str | None:
        return self._values.get(name, [None])[-1]

    def texts(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def flag(self, *names: str) -> bool:
        """Python's clients write True, others true; one name each way of writing it."""
        return any((self.text(name) or "").lower() == "true" for name in names)

    def number(self, name: str, default: int) -> int:
        text = self.text(name)
        if not text:
            return default
        # Longer numbers are not meant; and islice takes none above 2^63.
        if not re.fullmatch(r"-?[0-9]{1,18}", text):
            raise HttpRefusal(400, f"{name}: {text[:40]!r} is not a whole number")
        return int(text)


class Call(NamedTuple):
    """`parts` are the variable parts of the path, decoded. Where it begins with /contexts/{name},
    what names no context itself is in that one.
    """

    service: BrokerService
    caller: Caller
    parts: tuple[str, ...]
    query: Query
    read: Callable[[], Awaitable[bytes]]
    context: str = DEFAULT_CONTEXT

    @property
    def tenant(self) -> str:
        return self.caller.principal.tenant

    @property
    def subject(self) -> str:
        """The subject in the path."""
        return inner_subject(self.tenant, qualified(self.context, self.parts[0]))

    @property
    def subject_of_id(self) -> str:
        """The subject that an id is asked for with; without a name, it is its context."""
        subject = qualified(self.context, self.query.text("subject") or "")
        return inner_subject(self.tenant, subject)

    @property
    def scope(self) -> str | None:
        """What settings are for: the named subject itself, were it an alias, or a context; None is
        the default context.
        """
        scope = qualified(self.context, self.parts[0] if self.parts else "")
        if self.tenant and scope == GLOBAL_SCOPE:
            raise SubjectAccessDenied(
                f"{self.caller.principal} has settings in its contexts, not in all there are"
            )
        return inner_subject(self.tenant, scope) or None

    @property
    def is_widest(self) -> bool:
        """Whether settings are asked for without a subject or a context."""
        return not self.parts and self.context == DEFAULT_CONTEXT

    @property
    def subject_prefix(self) -> str:
        """Of the subjects to be listed; all, if neither it nor a context is given."""
        prefix = self.query.text("subjectPrefix")
        if prefix is None and self.context == DEFAULT_CONTEXT:
            return ALL_CONTEXTS
        prefix = prefix or ""
        if not prefix.startswith(_ANY_CONTEXT):
            prefix = scope_of(self.context) + prefix
        if prefix.startswith(ALL_CONTEXTS):
            return prefix
        return inner_subject(self.tenant, prefix)

    @property
    def text_format(self) -> str | None:
        """How schemas are to be written."""
        return self.query.text("format")

    async def body(self, decoder: msgspec.json.Decoder[T]) -> T:
        content = await self.read()
        try:
            return decoder.decode(content)
        except msgspec.ValidationError as error:
            raise HttpRefusal(422, str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HttpRefusal(400, f"the body is not JSON: {error}") from None
        except RecursionError:
            raise HttpRefusal(400, "the body's JSON is nested too deeply") from None


class ReferenceBody(msgspec.Struct, frozen=True):
    name: str
    subject: str
    version: int = -1


class MetadataBody(msgspec.Struct, frozen=True, omit_defaults=True):
    tags: dict[str, list[str]] | None = None
    properties: dict[str, str] | None = None
    sensitive: list[str] | None = None


class RuleBody(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    name: str
    doc: str | None = None
    kind: str | None = None
    mode: str | None = None
    type: str | None = None
    tags: list[str] | None = None
    params: dict[str, str] | None = None
    expr: str | None = None
    on_success: str | None = None
    on_failure: str | None = None
    disabled: bool | None = None


class RuleSetBody(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    migration_rules: list[RuleBody] | None = None
    domain_rules: list[RuleBody] | None = None
    encoding_rules: list[RuleBody] | None = None
    enable_at: str | None = None


class SchemaBody(msgspec.Struct, frozen=True, rename="camel"):
    schema: str | None = None
    schema_type: str | None = None
    references: list[ReferenceBody] | None = None
    metadata: MetadataBody | None = None
    rule_set: RuleSetBody | None = None
    id: int | None = None
    version: int | None = None


_SCHEMA: Final = msgspec.json.Decoder(SchemaBody)


async def new_schema(call: Call) -> NewSchema:
    body = await call.body(_SCHEMA)
    kind = body.schema_type or SchemaType.AVRO
    if kind not in SchemaType.__members__:
        raise invalid_schema(f"schemaType: {kind!r} is none of {', '.join(SchemaType.__members__)}")
    return NewSchema(
        type=SchemaType(kind),
        text=body.schema or "",
        references=tuple(
            Reference(r.name, named_in_schema(call.tenant, r.subject), r.version)
            for r in body.references or ()
        ),
        metadata=b"" if body.metadata is None else _SORTED.encode(body.metadata),
        rule_set=b"" if body.rule_set is None else _SORTED.encode(body.rule_set),
        schema_id=_positive(body.id),
        version=_positive(body.version),
    )


def named_in_schema(tenant: str, subject: str) -> str:
    """A subject that names no context is in that of what names it, whatever that is called."""
    return inner_subject(tenant, subject) if subject.startswith(":.") else subject


def _positive(number: int | None) -> int | None:
    """Clients write -1 or 0 for what is to be given by the registry."""
    if number is not None and number > VERSION_MAX:
        raise HttpRefusal(422, f"{number}: ids and versions end at {VERSION_MAX}")
    return number if number is not None and number > 0 else None


def parse_version(text: str) -> int | None:
    """None is the latest."""
    if text in ("latest", "-1"):
        return None
    number = number_in(text)
    if number is not None and 1 <= number <= VERSION_MAX:
        return number
    raise RegistryRefusal(
        RefusalKind.INVALID_VERSION,
        f"The specified version '{text}' is not a valid version id. Allowed values are between "
        '[1, 2^31-1] and the string "latest"',
    )


def parse_id(text: str) -> int:
    number = number_in(text)
    if number is not None and number <= VERSION_MAX:
        return number
    raise HttpRefusal(404, f"{text!r} is not the id of a schema")


def page(found: list[T], query: Query, *, most: int) -> list[T]:
    """The part of a list that `offset` and `limit` ask for."""
    start, end = page_bounds(query, most=most)
    return found[start:end]


def page_bounds(query: Query, *, most: int) -> tuple[int, int]:
    """Where a page begins and ends; a limit below 0 is none."""
    offset, limit = max(0, query.number("offset", 0)), query.number("limit", -1)
    return offset, offset + (most if limit < 0 else min(limit, most))
