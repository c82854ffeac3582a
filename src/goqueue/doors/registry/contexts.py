"""/contexts: which there are, and deleting one."""

from typing import Final

from goqueue.doors.registry.answers import NoContent
from goqueue.doors.registry.requests import Call, page
from goqueue.model.schemas.contexts import parse_context
from goqueue.model.schemas.tenant_subjects import inner_context, local_context

# As Confluent's registry has it.
CONTEXTS_LISTED_MAX: Final = 20_000


async def list_contexts(call: Call) -> list[str]:
    found = await call.service.schemas.contexts(call.caller)
    if call.tenant:
        found = sorted({local_context(call.tenant, each) for each in found})
    return page(found, call.query, most=CONTEXTS_LISTED_MAX)


async def delete_context(call: Call) -> NoContent:
    context = inner_context(call.tenant, parse_context(call.parts[0]))
    await call.service.schemas.delete_context(call.caller, context)
    return NoContent()
