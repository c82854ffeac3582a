"""RenewDelegationToken (KIP-48): let a token live on; for its owner and those whom it named."""

from typing import TYPE_CHECKING

from goqueue.doors.kafka.delegation_tokens import is_by_token, new_end, period_ms
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.wire.writing import Message
from goqueue.service.needs import OPEN

if TYPE_CHECKING:
    from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest


async def handle(context: RequestContext, request: "RenewDelegationTokenRequest") -> Message:
    return await new_end(
        context.service.tokens.renew(
            context.caller,
            bytes(request.hmac),
            period_ms(request.renew_period),
            by_token=is_by_token(context),
        )
    )


OPERATION = Operation(
    api_key=39,
    name="RenewDelegationToken",
    min_version=1,
    max_version=2,
    handle=handle,
    # The token's secret is what is needed, and to be named in it.
    needs=OPEN,
)
