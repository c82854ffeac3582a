"""What goes into the registry's commands, and what comes out."""

from collections.abc import Mapping
from enum import StrEnum
from hashlib import md5
from typing import NamedTuple
from uuid import UUID

import msgspec

from goqueue.model.schemas.contexts import DEFAULT_CONTEXT, ContextId, context_of
from goqueue.model.schemas.formats import SchemaType


class CompatibilityLevel(StrEnum):
    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        return self.value.startswith(("FORWARD", "FULL"))


class Mode(StrEnum):
    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"

    @property
    def is_read_only(self) -> bool:
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)


class Reference(NamedTuple):
    """`name` is how the schema's text calls what is registered as that version of the subject.

    A subject without a context is in that of the schema which has the reference.
    """

    name: str
    subject: str
    version: int


class SchemaIdentity(NamedTuple):
    """Two registrations with the same identity share one id within a context.

    Metadata and rules count: clients read them by id, too.
    """

    type: str
    fingerprint: str
    references: tuple[Reference, ...] = ()
    metadata: bytes = b""
    rule_set: bytes = b""


def schema_size_bytes(
    text: str, references: tuple[Reference, ...], metadata: bytes, rule_set: bytes
) -> int:
    texts = (text, *(each for r in references for each in (r.name, r.subject)))
    encoded = sum(len(each.encode(errors="surrogatepass")) for each in texts)
    return encoded + len(metadata) + len(rule_set)


class StoredSchema(NamedTuple):
    """`metadata` and `rule_set` are JSON as it is given out; empty where the client sent none."""

    id: int
    text: str
    identity: SchemaIdentity
    context: str = DEFAULT_CONTEXT

    @property
    def context_id(self) -> ContextId:
        return ContextId(self.context, self.id)

    @property
    def size_bytes(self) -> int:
        _, _, references, metadata, rule_set = self.identity
        return schema_size_bytes(self.text, references, metadata, rule_set)

    @property
    def guid(self) -> UUID:
        """The same in every registry and context that holds the same schema."""
        digest = md5(self.text.encode(), usedforsecurity=False)
        identity = self.identity
        parts = (identity.type, identity.references, identity.metadata, identity.rule_set)
        digest.update(msgspec.msgpack.encode(parts))
        return UUID(bytes=digest.digest())


class Version(NamedTuple):
    subject: str
    number: int
    schema_id: int
    is_deleted: bool
    registered_ms: int

    @property
    def context_id(self) -> ContextId:
        """The schema's."""
        return ContextId(context_of(self.subject), self.schema_id)


class SubjectConfig(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What is set for a subject or a context; None leaves it to the next wider scope."""

    compatibility: CompatibilityLevel | None = None
    normalize: bool | None = None
    alias: str | None = None
    compatibility_group: str | None = None

    def with_compatibility(self, default: CompatibilityLevel) -> "SubjectConfig":
        """With this level if none is set."""
        if self.compatibility is not None:
            return self
        return msgspec.structs.replace(self, compatibility=default)


class NewSchema(NamedTuple):
    """As a client sends it. A reference's version below 1 is the latest.

    `metadata` and `rule_set` are JSON, stored and given back as they are. Those who wait for their
    schemas to be looked at take turns by `asker`.
    """

    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    metadata: bytes = b""
    rule_set: bytes = b""
    schema_id: int | None = None
    version: int | None = None
    asker: str = ""


class Register(NamedTuple):
    """`schema_id` and `version` are given by clients that import from another registry."""

    subject: str
    text: str
    identity: SchemaIdentity
    now_ms: int
    schema_id: int | None = None
    version: int | None = None


class Registered(NamedTuple):
    schema: StoredSchema
    version: Version


class ShownVersion(NamedTuple):
    """`text` is the schema's own, or in another format that was asked for."""

    schema: StoredSchema
    text: str
    version: Version


class ShownSchema(NamedTuple):
    """As `ShownVersion`, of a schema by itself; the highest id is that of its context."""

    schema: StoredSchema
    text: str
    version: Version | None
    highest_id: int


class RegistryFigures(NamedTuple):
    """`subjects` and `versions` are those that are not deleted. The highest id, compatibility and
    mode are the default context's.
    """

    contexts: int
    subjects: int
    versions: int
    deleted_versions: int
    highest_id: int
    types: Mapping[SchemaType, int]
    compatibility: CompatibilityLevel
    mode: Mode


class DeleteVersion(NamedTuple):
    subject: str
    number: int
    is_permanent: bool


class DeleteSubject(NamedTuple):
    subject: str
    is_permanent: bool


class SetConfig(NamedTuple):
    """Without a subject, for the default context; without a config, all that is set there goes.

    What the config leaves out stays as it was, but for the fields named in `cleared`.
    """

    subject: str | None
    config: SubjectConfig | None
    cleared: frozenset[str] = frozenset()


class SetMode(NamedTuple):
    """Without a mode, the wider scope's counts again."""

    subject: str | None
    mode: Mode | None
    is_forced: bool = False


class DeleteContext(NamedTuple):
    context: str
