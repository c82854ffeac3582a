"""CreateDelegationToken (KIP-48; version 3: for another user, KIP-373)."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.delegation_tokens import (
    NO_TIME,
    USER,
    is_by_token,
    period_ms,
    principal,
)
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest


async def handle(context: RequestContext, request: "CreateDelegationTokenRequest") -> Message:
    owner: str | None = getattr(request, "owner_principal_name", None) or None
    kinds: set[str | None] = {renewer.principal_type for renewer in request.renewers}
    if owner is not None:
        kinds.add(request.owner_principal_type)
    if kinds - {USER}:
        return _refused(context, owner, ErrorCode.invalid_principal_type)
    try:
        held = await context.service.tokens.create(
            context.caller,
            owner=owner,
            renewers=[renewer.principal_name for renewer in request.renewers],
            max_lifetime_ms=period_ms(request.max_lifetime) or None,
            by_token=is_by_token(context),
        )
    except GoQueueError as error:
        return _refused(context, owner, error_code(error))
    token = held.token
    return {
        "error_code": ErrorCode.none,
        **principal(token.owner, ""),
        **principal(token.requester, "token_requester_"),
        "issue_timestamp": token.issued_ms,
        "expiry_timestamp": token.expires_ms,
        "max_timestamp": token.max_ms,
        "token_id": token.id,
        "hmac": held.hmac,
    }


def _refused(context: RequestContext, owner: str | None, code: ErrorCode) -> Message:
    asks = str(context.caller.principal)
    return {
        "error_code": code,
        **principal(asks if owner is None else f"{USER}:{owner}", ""),
        **principal(asks, "token_requester_"),
        "issue_timestamp": NO_TIME,
        "expiry_timestamp": NO_TIME,
        "max_timestamp": NO_TIME,
        "token_id": "",
        "hmac": b"",
    }


OPERATION = Operation(
    api_key=38,
    name="CreateDelegationToken",
    min_version=1,
    max_version=3,
    handle=handle,
    # Asked for where the owner is somebody else.
    needs=(Need(Resource.USER, Verb.CREATE_TOKENS, names="owner_principal_name"),),
)
