"""The schema registry.

A subject may be an alias of another one; the caller then needs the right to both. Who registers or
compares a schema needs to read the subjects that it refers to.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from goqueue.broker.node import Node
from goqueue.model.caller import Caller
from goqueue.model.errors import AccessDenied
from goqueue.model.rights import ReadableSubject, Resource
from goqueue.model.schemas.contexts import ContextId, context_of, qualified
from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal
from goqueue.model.schemas.messages import (
    Mode,
    NewSchema,
    Registered,
    RegistryFigures,
    ShownSchema,
    ShownVersion,
    SubjectConfig,
    Version,
)
from goqueue.model.schemas.mismatch import Mismatch
from goqueue.service.security.access import Access
from goqueue.service.security.audited import audited

Right = TypeVar("Right", bound=str)

_NOT_FOUND: Final = (RefusalKind.SUBJECT_NOT_FOUND, RefusalKind.SCHEMA_NOT_FOUND)


class SchemaService:
    def __init__(self, node: Node, access: Access) -> None:
        self._schemas = node.schemas
        self._reading = node.schemas.reading
        self._writing = node.schemas.writing
        self._cluster_id = node.cluster_id
        self._access = access

    @property
    def schema_max_bytes(self) -> int:
        return self._schemas.schema_max_bytes

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    # --- subjects and their versions ------------------------------------------------------

    async def subjects(
        self, caller: Caller, prefix: str, *, deleted: bool, deleted_only: bool
    ) -> list[str]:
        return await self._reading.subjects(
            self._access.readable_subjects(caller),
            prefix,
            deleted=deleted,
            deleted_only=deleted_only,
        )

    async def versions(self, caller: Caller, subject: str, *, deleted: bool) -> list[Version]:
        readable = await self._readable(caller, subject)
        return await self._reading.versions(readable, deleted=deleted)

    async def version(
        self,
        caller: Caller,
        subject: str,
        number: int | None,
        *,
        deleted: bool = False,
        text_format: str | None = None,
    ) -> ShownVersion:
        """With None as number, the latest. What is not in the default context is looked for in
        the others, as in Confluent's registry.
        """
        readable = await self._readable(caller, subject)
        try:
            return await self._reading.version(
                readable, number, deleted=deleted, text_format=text_format
            )
        except RegistryRefusal:
            for other in await self._elsewhere(caller, readable):
                with suppress(RegistryRefusal):
                    return await self._reading.version(
                        other, number, deleted=deleted, text_format=text_format
                    )
            raise

    async def latest_with_metadata(
        self,
        caller: Caller,
        subject: str,
        wanted: Sequence[tuple[str, str]],
        *,
        deleted: bool = False,
        text_format: str | None = None,
    ) -> ShownVersion:
        """The newest version whose metadata has all the given properties."""
        readable = await self._readable(caller, subject)
        return await self._reading.latest_with_metadata(
            readable, wanted, deleted=deleted, text_format=text_format
        )

    async def referrers(self, caller: Caller, subject: str, number: int | None) -> list[int]:
        """Ids of the schemas in use that refer to a version."""
        readable = await self._readable(caller, subject)
        return await self._reading.referrers(
            readable, number, self._access.readable_subjects(caller)
        )

    async def register(
        self, caller: Caller, subject: str, new: NewSchema, *, normalize: bool = False
    ) -> Registered:
        """The schema's id and version under the subject, given to it now or before."""
        writable = await self._unaliased(self._access.writable_subject, caller, subject)
        new = self._asked(caller, writable, new)
        return await self._writing.register(writable, new, normalize=normalize)

    async def look_up(
        self,
        caller: Caller,
        subject: str,
        new: NewSchema,
        *,
        normalize: bool = False,
        deleted: bool = False,
        text_format: str | None = None,
    ) -> ShownVersion:
        """The version of the subject that has this schema; raises if there is none. As with
        `version`, other contexts are looked through, too.
        """
        readable = await self._readable(caller, subject)
        look_up = partial(
            self._schemas.look_up, normalize=normalize, deleted=deleted, text_format=text_format
        )
        try:
            return await look_up(readable, self._asked(caller, readable, new))
        except RegistryRefusal as refusal:
            if refusal.kind not in _NOT_FOUND:
                raise
            for other in await self._elsewhere(caller, readable):
                # What it refers to may be missing there, or not be for the caller.
                with suppress(RegistryRefusal, AccessDenied):
                    return await look_up(other, self._asked(caller, other, new))
            raise

    async def check_version(
        self,
        caller: Caller,
        subject: str,
        number: int | None,
        new: NewSchema,
        *,
        normalize: bool = False,
    ) -> Mismatch | None:
        """Whether the schema is compatible with that version; with None, with the latest."""
        readable = await self._readable(caller, subject)
        new = self._asked(caller, readable, new)
        return await self._schemas.check_version(readable, number, new, normalize=normalize)

    async def check(
        self, caller: Caller, subject: str, new: NewSchema, *, normalize: bool = False
    ) -> Mismatch | None:
        """Whether the schema could be registered."""
        readable = await self._readable(caller, subject)
        new = self._asked(caller, readable, new)
        return await self._schemas.check(readable, new, normalize=normalize)

    @audited("schema.delete", Resource.SUBJECT, about="subject", detail=("number", "is_permanent"))
    async def delete_version(
        self, caller: Caller, subject: str, number: int | None, *, is_permanent: bool
    ) -> int:
        """Returns the number; with None, it is the latest that goes."""
        deletable = await self._unaliased(self._access.deletable_subject, caller, subject)
        return await self._writing.delete_version(deletable, number, is_permanent=is_permanent)

    @audited("schema.delete", Resource.SUBJECT, about="subject", detail=("is_permanent",))
    async def delete_subject(
        self, caller: Caller, subject: str, *, is_permanent: bool
    ) -> list[int]:
        """Returns the numbers of its versions."""
        deletable = await self._unaliased(self._access.deletable_subject, caller, subject)
        return await self._writing.delete_subject(deletable, is_permanent=is_permanent)

    # --- schemas --------------------------------------------------------------------------

    async def schemas(
        self,
        caller: Caller,
        prefix: str,
        page: tuple[int, int],
        *,
        deleted: bool,
        latest_only: bool,
    ) -> list[Registered]:
        """By subject and version, from the first to the last position of the page."""
        readable = self._access.readable_subjects(caller)
        return await self._reading.schemas(
            readable, prefix, page, deleted=deleted, latest_only=latest_only
        )

    async def schema(
        self, caller: Caller, schema_id: int, subject: str = "", *, text_format: str | None = None
    ) -> ShownSchema:
        """With the version that the named subject has of it, deleted or not. A subject without a
        name is its context.
        """
        readable = self._access.readable_subjects(caller)
        return await self._reading.schema(readable, schema_id, subject, text_format=text_format)

    async def uses(
        self, caller: Caller, schema_id: int, subject: str = "", *, deleted: bool
    ) -> list[Version]:
        """The versions that have this schema, by subject and number."""
        readable = self._access.readable_subjects(caller)
        return await self._reading.uses(readable, schema_id, subject, deleted=deleted)

    async def schema_by_guid(
        self, caller: Caller, guid: UUID, *, text_format: str | None = None
    ) -> ShownSchema:
        readable = self._access.readable_subjects(caller)
        return await self._reading.schema_by_guid(readable, guid, text_format=text_format)

    async def ids_of_guid(self, caller: Caller, guid: UUID) -> list[ContextId]:
        return await self._reading.ids_of_guid(self._access.readable_subjects(caller), guid)

    # --- contexts -------------------------------------------------------------------------

    async def contexts(self, caller: Caller) -> list[str]:
        return await self._reading.contexts(self._access.readable_subjects(caller))

    @audited("schema.delete_context", Resource.SUBJECT, about="context")
    async def delete_context(self, caller: Caller, context: str) -> None:
        await self._writing.delete_context(self._access.deletable_context(caller, context))

    async def figures(self, caller: Caller) -> RegistryFigures:
        return await self._reading.figures(self._access.describable_cluster(caller))

    # --- settings: of a subject or a context, with None of the default context -------------

    async def config(
        self, caller: Caller, subject: str | None, *, default_to_global: bool = False
    ) -> SubjectConfig:
        """What is set there; with `default_to_global`, what counts there."""
        scope = self._access.readable_scope(caller, subject)
        return await self._reading.config(scope, default_to_global=default_to_global)

    @audited("schema.config", Resource.SUBJECT, about="subject")
    async def set_config(
        self,
        caller: Caller,
        subject: str | None,
        config: SubjectConfig,
        *,
        cleared: frozenset[str] = frozenset(),
    ) -> SubjectConfig:
        """Returns all that is set there now."""
        scope = self._access.configurable_scope(caller, subject)
        return await self._writing.set_config(scope, config, cleared=cleared)

    @audited("schema.config", Resource.SUBJECT, about="subject")
    async def delete_config(self, caller: Caller, subject: str | None) -> SubjectConfig:
        """Returns what was set there."""
        return await self._writing.delete_config(self._access.configurable_scope(caller, subject))

    async def mode(
        self, caller: Caller, subject: str | None, *, default_to_global: bool = False
    ) -> Mode:
        scope = self._access.readable_scope(caller, subject)
        return await self._reading.mode(scope, default_to_global=default_to_global)

    @audited("schema.mode", Resource.SUBJECT, about="subject", detail=("mode",))
    async def set_mode(
        self, caller: Caller, subject: str | None, mode: Mode, *, is_forced: bool = False
    ) -> Mode:
        scope = self._access.configurable_scope(caller, subject)
        return await self._writing.set_mode(scope, mode, is_forced=is_forced)

    @audited("schema.mode", Resource.SUBJECT, about="subject")
    async def delete_mode(self, caller: Caller, subject: str | None) -> Mode:
        """Returns the mode that was set there."""
        return await self._writing.delete_mode(self._access.configurable_scope(caller, subject))

    # --- rights ---------------------------------------------------------------------------

    async def _readable(self, caller: Caller, subject: str) -> ReadableSubject:
        return await self._unaliased(self._access.readable_subject, caller, subject)

    async def _elsewhere(self, caller: Caller, subject: ReadableSubject) -> list[ReadableSubject]:
        readable = self._access.readable_subjects(caller)
        names = await self._reading.same_elsewhere(subject)
        return [self._access.readable_subject(caller, each) for each in names if each in readable]

    async def _unaliased(
        self, ask: Callable[[Caller, str], Right], caller: Caller, subject: str
    ) -> Right:
        """The right to a subject, or to the one that it is an alias of."""
        return ask(caller, await self._reading.unaliased(ask(caller, subject)))

    def _asked(self, caller: Caller, subject: str, new: NewSchema) -> NewSchema:
        """The schema with who sent it, who must be able to read all that it refers to. What names
        no context is in that of the subject.
        """
        for reference in new.references:
            name = qualified(context_of(subject), reference.subject)
            self._access.readable_subject(caller, name)
        return new._replace(asker=caller.address)
