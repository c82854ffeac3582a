"""Whether a new schema goes with those registered before it, by the subject's level."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from goqueue.broker.schemas.jobs import Compared, CompareJob
from goqueue.broker.schemas.references import source_of
from goqueue.broker.schemas.worker import SchemaWorker
from goqueue.model.schemas.formats import SchemaSource
from goqueue.model.schemas.messages import CompatibilityLevel, Version
from goqueue.model.schemas.mismatch import Mismatch
from goqueue.state.schemas.catalogue import Catalogue

# Versions are compared in portions of this size, so that a long history does not fill a pipe.
COMPARED_MAX_BYTES: Final = 4 * 1024 * 1024


def predecessors(
    catalogue: Catalogue, subject: str, metadata: bytes, level: CompatibilityLevel
) -> list[Version]:
    """The subject's versions that a new schema with this metadata is compared with, newest first.

    Where a compatibility group is set, those with the same value of that property only.
    """
    versions = list(reversed(catalogue.versions(subject)))
    group = catalogue.compatibility_group_of(subject)
    if group is not None:
        own = property_of(metadata, group)
        versions = [
            version
            for version in versions
            if property_of(catalogue.schema(version.context_id).identity.metadata, group) == own
        ]
    return versions if level.is_transitive else versions[:1]


async def compare(
    worker: SchemaWorker,
    catalogue: Catalogue,
    new: SchemaSource,
    olds: list[Version],
    level: CompatibilityLevel,
    *,
    asker: str,
) -> Mismatch | None:
    """The first of the older versions that the new schema does not go with, and why."""
    if level is CompatibilityLevel.NONE:
        return None
    for portion in _portions(catalogue, olds):
        job = CompareJob(
            new=new,
            olds=[source for _, source in portion],
            is_backward=level.is_backward,
            is_forward=level.is_forward,
        )
        compared = await worker.run(job, Compared, asker=asker)
        if compared.position >= 0:
            version, source = portion[compared.position]
            return Mismatch(version, source, level, compared.reasons)
    return None


def _portions(
    catalogue: Catalogue, olds: list[Version]
) -> Iterator[list[tuple[Version, SchemaSource]]]:
    # Read at once: what is deleted while the worker compares was there when this began.
    sources = [(old, source_of(catalogue, catalogue.schema(old.context_id))) for old in olds]
    portion: list[tuple[Version, SchemaSource]] = []
    size_bytes = 0
    for version, source in sources:
        size_bytes += len(source.text) + sum(len(r.text) for r in source.references)
        portion.append((version, source))
        if size_bytes >= COMPARED_MAX_BYTES:
            yield portion
            portion, size_bytes = [], 0
    if portion:
        yield portion


def property_of(metadata: bytes, name: str) -> str | None:
    """A property in a schema's metadata."""
    if not metadata:
        return None
    decoded: dict[str, Any] = msgspec.json.decode(metadata)
    value: str | None = decoded.get("properties", {}).get(name)
    return value
