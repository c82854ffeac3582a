"""Avro schemas as the registry gets them. See `registry_texts` for what an input is."""

from functools import partial
from typing import Final

from goqueue.model.schemas.formats import SchemaType
from tests.fuzz.registry_texts import LIMITS, PROMISE, run
from tests.fuzz.target import Target

TARGET: Final = Target(
    name="registry_avro", promise=PROMISE, run=partial(run, SchemaType.AVRO), **LIMITS
)
