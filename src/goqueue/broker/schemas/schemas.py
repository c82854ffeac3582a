"""The schema registry on this broker: looking up and comparing. `writing.py` registers.

What is registered is a state machine on `_schemas`; parsing and comparing run in processes of
their own, so that no schema can hold up the event loop.
"""

from goqueue.broker.calls.calls import Calls
from goqueue.broker.runtime.topic import ShardHost
from goqueue.broker.schemas.catalogues import Catalogues
from goqueue.broker.schemas.compatibility import compare, predecessors
from goqueue.broker.schemas.parsing import SchemaParser
from goqueue.broker.schemas.reading import SchemaReading
from goqueue.broker.schemas.recognising import Recogniser
from goqueue.broker.schemas.references import source_of
from goqueue.broker.schemas.worker import SchemaWorker
from goqueue.broker.schemas.writing import SchemaWriting
from goqueue.model.rights import ReadableSubject
from goqueue.model.schemas.contexts import ContextId
from goqueue.model.schemas.errors import schema_not_found, subject_not_found, version_not_found
from goqueue.model.schemas.formats import ResolvedReference, SchemaSource, SchemaType
from goqueue.model.schemas.messages import NewSchema, ShownVersion
from goqueue.model.schemas.mismatch import Mismatch
from goqueue.schema_formats import bound_of_work
from goqueue.state.schemas.machine import SchemaMachine


class Schemas:
    """Owned by the broker. `reading` shows what is registered to clients, `writing` changes it."""

    def __init__(
        self,
        host: ShardHost,
        calls: Calls,
        *,
        schema_max_bytes: int,
        all_max_bytes: int,
        contexts_max: int,
    ) -> None:
        self.schema_max_bytes = schema_max_bytes
        self.catalogues = Catalogues(
            host,
            calls,
            lambda: SchemaMachine(
                contexts_max=contexts_max,
                size_max_bytes=all_max_bytes,
                tenants=lambda: host.image.security.tenants,
            ),
        )
        self.worker = SchemaWorker()
        self._parser = SchemaParser(self.worker)
        self._recogniser = Recogniser(self._parser, schema_max_bytes=schema_max_bytes)
        self.reading = SchemaReading(self.catalogues, self._parser)
        self.writing = SchemaWriting(
            self.catalogues, self._recogniser, self.worker, calls, clock_ms=host.clock_ms
        )

    async def start(self) -> None:
        await self.catalogues.start()

    async def close(self) -> None:
        await self.catalogues.close()
        await self.worker.close()

    # --- what this broker knows by itself -------------------------------------------------

    def source(self, context_id: ContextId) -> SchemaSource:
        """A schema with what it refers to; raises `RegistryRefusal` if there is none."""
        catalogue = self.catalogues.now
        return source_of(catalogue, catalogue.schema(context_id))

    def subjects_of(self, context_id: ContextId) -> list[str]:
        """The subjects that have this schema in a version that is not deleted, by name."""
        return list(dict.fromkeys(v.subject for v in self.catalogues.now.uses(context_id)))

    async def compiled(self, context_id: ContextId) -> SchemaSource:
        """As `source`, with Protobuf compiled: a validator made of it needs no compiler, which
        would hold up the event loop from any thread.
        """
        source = self.source(context_id)
        if source.type is not SchemaType.PROTOBUF:
            return source
        before: list[ResolvedReference] = []
        for name, text in source.references:
            part = SchemaSource(source.type, text, tuple(before))
            before.append(ResolvedReference(name, await self._parser.describe(part)))
        whole = source._replace(references=tuple(before))
        return whole._replace(text=await self._parser.describe(whole))

    async def assessed(self, context_id: ContextId) -> tuple[SchemaSource, int | None]:
        """As `compiled`, with the steps that a check takes for each byte of a payload; None where
        they have no bound.
        """
        source = await self.compiled(context_id)
        if source.type is SchemaType.JSON:
            return source, await self._parser.assess(source)
        return source, bound_of_work(source)

    # --- looking up and comparing ---------------------------------------------------------

    async def look_up(
        self,
        subject: ReadableSubject,
        new: NewSchema,
        *,
        normalize: bool,
        deleted: bool,
        text_format: str | None,
    ) -> ShownVersion:
        """The version of the subject that has this schema; raises if there is none."""
        async with self.catalogues.shown() as catalogue:
            if not catalogue.has_subject(subject, deleted=deleted):
                raise subject_not_found(subject)
            known = await self._recogniser.parse(catalogue, subject, new, normalize=normalize)
            found = await self._recogniser.find(catalogue, subject, known, deleted=deleted)
            if found is None:
                raise schema_not_found()
            return await self.reading.rendered(catalogue, found, text_format)

    async def check(
        self, subject: ReadableSubject, new: NewSchema, *, normalize: bool
    ) -> Mismatch | None:
        """Whether the schema could be registered."""
        async with self.catalogues.shown() as catalogue:
            known = await self._recogniser.parse(catalogue, subject, new, normalize=normalize)
            level = catalogue.compatibility_of(subject)
            olds = predecessors(catalogue, subject, known.identity.metadata, level)
            return await compare(self.worker, catalogue, known.source, olds, level, asker=new.asker)

    async def check_version(
        self, subject: ReadableSubject, number: int | None, new: NewSchema, *, normalize: bool
    ) -> Mismatch | None:
        """Whether the schema is compatible with that version, or with the latest if None.

        Without a latest version, nothing is there to be compatible with.
        """
        async with self.catalogues.shown() as catalogue:
            olds = [version for version in (catalogue.latest(subject),) if version]
            if number is not None:
                olds = [each for each in catalogue.versions(subject) if each.number == number]
                if not olds:
                    raise version_not_found(number)
            known = await self._recogniser.parse(catalogue, subject, new, normalize=normalize)
            level = catalogue.compatibility_of(subject)
            return await compare(self.worker, catalogue, known.source, olds, level, asker=new.asker)
