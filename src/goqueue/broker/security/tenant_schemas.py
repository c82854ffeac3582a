"""What a tenant has in the schema registry, removed with the tenant, whatever it has set there."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from goqueue.broker.own_grants import (
    OwnWork,
    own_configure_scope,
    own_delete_context,
    own_delete_subject,
)
from goqueue.model.schemas.errors import RefusalKind, RegistryRefusal
from goqueue.model.schemas.messages import Version
from goqueue.model.schemas.tenant_subjects import inner_context, scope_of_tenant

if TYPE_CHECKING:
    from goqueue.broker.schemas.schemas import Schemas
    from goqueue.broker.schemas.writing import SchemaWriting

_WORK = OwnWork.TENANT_REMOVAL


async def remove_schemas(schemas: "Schemas", tenant: str) -> None:
    """Settings first: a tenant may have made something read-only. What is deleted for good must
    have been deleted before, as in Confluent's registry."""
    scope, writing = scope_of_tenant(tenant), schemas.writing
    async with schemas.catalogues.shown() as catalogue:
        modes = [each for each in catalogue.modes if _is_within(scope, each)]
        configs = [each for each in catalogue.configs if _is_within(scope, each)]
        versions = [each for each in catalogue.all_versions() if each.subject.startswith(scope)]
        own = inner_context(tenant, ".")
        contexts = [each for each in catalogue.contexts() if each.startswith(own)]
    for each in modes:
        await writing.delete_mode(own_configure_scope(each, _WORK))
    for each in configs:
        await writing.delete_config(own_configure_scope(each, _WORK))
    in_use = [each for each in versions if not each.is_deleted]
    await _delete_versions(writing, in_use, is_permanent=False)
    await _delete_versions(writing, versions, is_permanent=True)
    for context in contexts:
        await writing.delete_context(own_delete_context(context, _WORK))


def _is_within(scope: str, name: str | None) -> bool:
    return name is not None and name.startswith(scope)


async def _delete_versions(
    writing: "SchemaWriting", versions: Iterable[Version], *, is_permanent: bool
) -> None:
    """What others refer to goes after them. They are younger, mostly, so that one round will do;
    each takes at least one."""
    left = sorted(versions, key=lambda each: each.schema_id, reverse=True)
    while left:
        kept: list[Version] = []
        for each in left:
            right = own_delete_subject(each.subject, _WORK)
            try:
                await writing.delete_version(right, each.number, is_permanent=is_permanent)
            except RegistryRefusal as refusal:
                if refusal.kind is not RefusalKind.REFERENCE_EXISTS:
                    raise
                kept.append(each)
                referred = refusal
        if len(kept) == len(left):
            raise referred
        left = kept
