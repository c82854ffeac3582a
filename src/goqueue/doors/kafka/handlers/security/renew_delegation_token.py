"""RenewDelegationToken (KIP-48): let a token live on; for its owner and those whom it named."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.delegation_tokens import NO_TIME, is_by_token, period_ms
from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.service.needs import OPEN

if TYPE_CHECKING:
    from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest


async def handle(context: RequestContext, request: "RenewDelegationTokenRequest") -> Message:
    try:
        ends_ms = await context.service.tokens.renew(
            context.caller,
            bytes(request.hmac),
            period_ms(request.renew_period),
            by_token=is_by_token(context),
        )
    except GoQueueError as error:
        return {"error_code": error_code(error), "expiry_timestamp": NO_TIME}
    return {"error_code": ErrorCode.none, "expiry_timestamp": ends_ms}


OPERATION = Operation(
    api_key=39,
    name="RenewDelegationToken",
    min_version=1,
    max_version=2,
    handle=handle,
    # The token's secret is what is needed, and to be named in it.
    needs=OPEN,
)
