"""JSON Schema, drafts 04 to 2020-12: parsing, compatibility and validation.

Pure functions without state; safe to call from any thread or process. A schema's documents are read
anew for each call, and nothing is ever fetched: what a `$ref` names must be in the schema itself,
among its references, or be one of the drafts' own meta-schemas.
"""

from goqueue.schema_formats.json_schema.compatibility import incompatibilities
from goqueue.schema_formats.json_schema.parsing import parse
from goqueue.schema_formats.json_schema.validation import (
    bound_of_work,
    make_bounded_validator,
    make_validator,
)

__all__ = [
    "bound_of_work",
    "incompatibilities",
    "make_bounded_validator",
    "make_validator",
    "parse",
]
