"""The languages schemas are written in: parsing, comparing and validating, one package each.

Pure functions without state. Everything that goes in or out can be pickled: the broker runs the
slow ones in a process of their own. The libraries behind a format are imported when it is first
used, so that a broker without schemas does not pay for them.
"""

from goqueue.model.schemas.formats import (
    Incompatibility,
    InvalidContent,
    InvalidSchema,
    NotExplained,
    ParsedSchema,
    ResolvedReference,
    SchemaSource,
    SchemaType,
    Validator,
)
from goqueue.schema_formats.formats import (
    bound_of_work,
    incompatibilities,
    make_bounded_validator,
    make_validator,
    parse,
)

__all__ = [
    "Incompatibility",
    "InvalidContent",
    "InvalidSchema",
    "NotExplained",
    "ParsedSchema",
    "ResolvedReference",
    "SchemaSource",
    "SchemaType",
    "Validator",
    "bound_of_work",
    "incompatibilities",
    "make_bounded_validator",
    "make_validator",
    "parse",
]
