"""The schemas that records were written with, and what to do about newer ones.

A query's columns come from one version of a subject, chosen when it starts; producers may go on to
newer versions while it runs.
"""

from typing import Final

from goqueue.client.http_api import HttpRefused
from goqueue.client.registry import RegisteredSchema, Registry
from goqueue.model.errors import GoQueueError

# Read what fits the columns. | End at the first record of a newer version. | As follow, with null
# for records whose newer version does not fit.
FOLLOW: Final = "follow"
STOP: Final = "stop"
PERMISSIVE: Final = "permissive"
EVOLUTIONS: Final = (FOLLOW, STOP, PERMISSIVE)

NOT_FOUND: Final = 404


class SchemaChanged(GoQueueError):
    """A record was written with a newer schema than that of the query's columns."""

    code = "schema_changed"


class WriterSchemas:
    """Each is asked for once. Every decoder gets the schema of a record here."""

    def __init__(
        self, registry: Registry, *, subject: str, version: int | None, evolution: str
    ) -> None:
        self._registry = registry
        self._subject = subject
        self._version = version
        self.evolution = evolution
        self._found: dict[int, RegisteredSchema] = {}
        self._newer: dict[int, int | None] = {}

    def of(self, schema_id: int) -> RegisteredSchema:
        """Raise SchemaChanged if the query is to stop at it."""
        found = self._found.get(schema_id)
        if found is None:
            if self.evolution == STOP and self.newer_version(schema_id) is not None:
                raise SchemaChanged(self.change(schema_id))
            found = self._found[schema_id] = self._registry.by_id(schema_id)
        return found

    def newer_version(self, schema_id: int) -> int | None:
        """The version that it is in the subject, if the one of the columns is older."""
        if self._version is None:
            return None
        if schema_id not in self._newer:
            versions = self._versions_of(schema_id)
            is_newer = bool(versions) and min(versions) > self._version
            self._newer[schema_id] = min(versions) if is_newer else None
        return self._newer[schema_id]

    def _versions_of(self, schema_id: int) -> list[int]:
        try:
            return self._registry.versions_of(schema_id, self._subject)
        except HttpRefused as error:
            if error.status != NOT_FOUND:
                raise
            return []  # bytes that only look like a schema's id

    def change(self, schema_id: int) -> str:
        """For people: what changed, and what to do."""
        return (
            f"it was written with version {self.newer_version(schema_id)} of subject "
            f"{self._subject!r}, and the columns of this query are those of version "
            f"{self._version}; start the query again: it goes on at this record with the columns "
            "of the newest version, and nothing is lost"
        )
