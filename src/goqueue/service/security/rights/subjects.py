"""Rights to subjects of the schema registry, and to settings of it."""

from typing import Final

from goqueue.model.caller import Caller
from goqueue.model.rights import (
    CLUSTER_NAME,
    ConfigurableScope,
    DeletableContext,
    DeletableSubject,
    ReadableScope,
    ReadableSubject,
    ReadableSubjects,
    Resource,
    SchemaScope,
    Verb,
    WritableSubject,
)
from goqueue.model.schemas.contexts import GLOBAL_SCOPE, scope_of
from goqueue.service.security.rights.deciding import Deciding

# Settings of the registry for more than a subject: of the default context, and of all contexts.
_WIDE_SCOPES: Final = (None, GLOBAL_SCOPE)


class SubjectRights(Deciding):
    def readable_subject(self, caller: Caller, name: str) -> ReadableSubject:
        self._check(caller, Resource.SUBJECT, name, Verb.READ)
        return ReadableSubject(name)

    def readable_subjects(self, caller: Caller) -> ReadableSubjects:
        """As `readable_topics`."""
        return ReadableSubjects(self._test(caller, Resource.SUBJECT, Verb.READ))

    def writable_subject(self, caller: Caller, name: str) -> WritableSubject:
        self._check(caller, Resource.SUBJECT, name, Verb.WRITE)
        return WritableSubject(name)

    def deletable_subject(self, caller: Caller, name: str) -> DeletableSubject:
        self._check(caller, Resource.SUBJECT, name, Verb.DELETE)
        return DeletableSubject(name)

    def deletable_context(self, caller: Caller, context: str) -> DeletableContext:
        self._check(caller, Resource.SUBJECT, scope_of(context), Verb.DELETE)
        return DeletableContext(context)

    def readable_scope(self, caller: Caller, subject: str | None) -> ReadableScope:
        """Settings of a subject, of a context, or of all; to be seen."""
        if subject in _WIDE_SCOPES:
            self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.DESCRIBE_CONFIGS)
        else:
            self._check(caller, Resource.SUBJECT, subject, Verb.READ)
        return ReadableScope(SchemaScope(subject))

    def configurable_scope(self, caller: Caller, subject: str | None) -> ConfigurableScope:
        """Settings of a subject, of a context, or of all; to be changed."""
        if subject in _WIDE_SCOPES:
            self._check(caller, Resource.CLUSTER, CLUSTER_NAME, Verb.ALTER_CONFIGS)
        else:
            self._check(caller, Resource.SUBJECT, subject, Verb.ALTER_CONFIGS)
        return ConfigurableScope(SchemaScope(subject))
