"""A schema with all that it refers to, in the order in which it is needed."""

from collections.abc import Iterable
from typing import Final

from goqueue.model.schemas.contexts import qualified
from goqueue.model.schemas.errors import RegistryRefusal, invalid_schema
from goqueue.model.schemas.formats import ResolvedReference, SchemaSource, SchemaType
from goqueue.model.schemas.messages import Reference, StoredSchema
from goqueue.state.schemas.catalogue import Catalogue

# All schemas that one schema needs, directly or not; Protobuf's own well-known types are 12.
REFERENCES_MAX: Final = 1_000
# References of references of references …
DEPTH_MAX: Final = 64
REFERENCED_MAX_BYTES: Final = 16 * 1024 * 1024


def source_of(catalogue: Catalogue, schema: StoredSchema) -> SchemaSource:
    """A registered schema; raises `RegistryRefusal` if something it refers to is gone."""
    identity = schema.identity
    return SchemaSource(
        SchemaType(identity.type),
        schema.text,
        resolve(catalogue, schema.context, identity.references),
    )


def resolve(
    catalogue: Catalogue, context: str, references: Iterable[Reference]
) -> tuple[ResolvedReference, ...]:
    """The texts behind references and behind theirs, each once, what is needed first before.

    A subject without a context is in the given one, which is that of the schema that refers to it.

    Deleted versions serve as well: whether a new schema may use them is the machine's decision.
    Registered schemas cannot refer to each other in a circle: what is referred to must be
    registered already.
    """
    texts: dict[str, str] = {}
    _collect(catalogue, context, references, texts, depth=0)
    return tuple(ResolvedReference(name, text) for name, text in texts.items())


def _collect(
    catalogue: Catalogue,
    context: str,
    references: Iterable[Reference],
    texts: dict[str, str],
    *,
    depth: int,
) -> None:
    if depth >= DEPTH_MAX:
        raise invalid_schema(f"references: they are nested more than {DEPTH_MAX} deep")
    for reference in references:
        if reference.name in texts:
            continue
        schema = _find(catalogue, context, reference)
        inner = schema.identity.references
        _collect(catalogue, schema.context, inner, texts, depth=depth + 1)
        texts[reference.name] = schema.text
        if len(texts) > REFERENCES_MAX:
            raise invalid_schema(f"references: more than {REFERENCES_MAX} schemas are needed")
        if sum(map(len, texts.values())) > REFERENCED_MAX_BYTES:
            raise invalid_schema(
                f"references: together they are larger than {REFERENCED_MAX_BYTES} bytes"
            )


def _find(catalogue: Catalogue, context: str, reference: Reference) -> StoredSchema:
    name, subject, number = reference
    subject = qualified(context, subject)
    try:
        return catalogue.schema(catalogue.version(subject, number, deleted=True).context_id)
    except RegistryRefusal:
        raise invalid_schema(
            f"references: {name!r} is to be version {number} of subject {subject!r}, which is not "
            "registered; register it first"
        ) from None
