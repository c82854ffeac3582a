"""The schema registry's state: schemas by id, subjects with their versions, configuration, modes.

One `SchemaMachine` owns it all, on the single partition of `_schemas`, and is used from the event
loop only. It neither parses nor compares schemas: fingerprints come in with the commands, so that
a replay of many thousand schemas is quick.
"""

from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal
from goqueue.state.schemas.catalogue import Catalogue
from goqueue.state.schemas.machine import SchemaMachine

__all__ = ["Catalogue", "RefusalKind", "RegistryRefusal", "SchemaMachine"]
