"""DescribeDelegationToken (KIP-48): the tokens that the caller may see, with their secrets."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.delegation_tokens import is_by_token, principal
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.rows import Rows
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need, Refused
from goqueue.service.security.tokens import HeldToken

if TYPE_CHECKING:
    from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest


async def handle(context: RequestContext, request: "DescribeDelegationTokenRequest") -> Message:
    owners = None
    if request.owners is not None:
        owners = {owner.principal_name for owner in request.owners}
    try:
        tokens = context.service.tokens.tokens(
            context.caller, owners, by_token=is_by_token(context)
        )
    except GoQueueError as error:
        return {"error_code": error_code(error), "tokens": ()}
    return {"error_code": ErrorCode.none, "tokens": Rows(tokens, _token)}


def _token(held: HeldToken) -> Message:
    token = held.token
    return {
        **principal(token.owner, ""),
        **principal(token.requester, "token_requester_"),
        "issue_timestamp": token.issued_ms,
        "expiry_timestamp": token.expires_ms,
        "max_timestamp": token.max_ms,
        "token_id": token.id,
        "hmac": held.hmac,
        "renewers": [principal(renewer, "") for renewer in token.renewers],
    }


OPERATION = Operation(
    api_key=41,
    name="DescribeDelegationToken",
    min_version=1,
    max_version=3,
    handle=handle,
    names_resources=True,
    only_reads=True,
    # Either is enough, and who owns or may renew a token needs neither.
    needs=(
        Need(Resource.DELEGATION_TOKEN, Verb.DESCRIBE, refused=Refused.LEFT_OUT),
        Need(Resource.USER, Verb.DESCRIBE_TOKENS, refused=Refused.LEFT_OUT),
    ),
)
