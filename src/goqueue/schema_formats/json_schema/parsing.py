"""From a schema's text to what the registry stores."""

from hashlib import sha256

from goqueue.model.schemas.formats import ParsedSchema, SchemaSource
from goqueue.schema_formats.json_schema.documents import Documents
from goqueue.schema_formats.json_schema.json_text import compact, load
from goqueue.schema_formats.json_schema.validation import compile_validator


def parse(source: SchemaSource, *, normalize: bool = False) -> ParsedSchema:
    """`canonical` is the text without white space; with `normalize` also with sorted keys."""
    documents = Documents(source)
    compile_validator(documents)
    schema = load(source.text)
    canonical = compact(schema, sort_keys=normalize)
    title = schema.get("title") if isinstance(schema, dict) else None
    return ParsedSchema(
        canonical, _fingerprint(canonical, source), title if isinstance(title, str) else None
    )


def _fingerprint(canonical: str, source: SchemaSource) -> str:
    """A reference's own lay-out does not count, nor does the order of references."""
    references = sorted((name, compact(load(text))) for name, text in source.references)
    return sha256(compact([canonical, references]).encode()).hexdigest()
