"""/contexts: which there are, and deleting one."""

from typing import Final

from goqueue.doors.registry.answers import NoContent
from goqueue.doors.registry.requests import Call, page
from goqueue.model.schemas.contexts import parse_context

# As Confluent's registry has it.
CONTEXTS_LISTED_MAX: Final = 20_000


async def list_contexts(call: Call) -> list[str]:
    found = await call.service.schemas.contexts(call.caller)
    return page(found, call.query, most=CONTEXTS_LISTED_MAX)


async def delete_context(call: Call) -> NoContent:
    await call.service.schemas.delete_context(call.caller, parse_context(call.parts[0]))
    return NoContent()
