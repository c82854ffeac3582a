"""Avro: schemas by the 1.12 specification, compared as Java's Avro does, payloads checked in place.

Pure functions without state; every call reads its schemas anew, so they may run anywhere at once.
A validator is the one thing to keep: it holds its schema prepared, is safe to share between
threads, and is pickled as the schema it was made from.
"""

from goqueue.schema_formats.avro.compatibility import incompatibilities
from goqueue.schema_formats.avro.payloads import make_validator
from goqueue.schema_formats.avro.schema_text import parse, resolved

__all__ = ["incompatibilities", "make_validator", "parse", "resolved"]
