"""DescribeUserScramCredentials (KIP-554): by which mechanisms users can log in."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.scram_mechanisms import NUMBERS
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.errors import GoQueueError
from goqueue.model.rights import Resource, Verb
from goqueue.service.needs import Need

if TYPE_CHECKING:
    from kio.schema.describe_user_scram_credentials.v0.request import (
        DescribeUserScramCredentialsRequest,
    )


async def handle(
    context: RequestContext, request: "DescribeUserScramCredentialsRequest"
) -> Message:
    names = [user.name for user in request.users or ()]
    try:
        told = await context.service.users.credentials(context.caller, names)
    except GoQueueError as error:
        return {"error_code": error_code(error), "error_message": error.message, "results": ()}
    results: list[Message] = []
    for name, found in told.items():
        if isinstance(found, GoQueueError):
            refused = {"error_code": error_code(found), "error_message": found.message}
            results.append({"user": name, **refused, "credential_infos": ()})
            continue
        infos = [
            {"mechanism": NUMBERS[mechanism], "iterations": record.iterations}
            for mechanism, record in sorted(found.items())
        ]
        results.append(
            {
                "user": name,
                "error_code": ErrorCode.none,
                "error_message": None,
                "credential_infos": infos,
            }
        )
    return {"error_code": ErrorCode.none, "error_message": None, "results": results}


OPERATION = Operation(
    api_key=50,
    name="DescribeUserScramCredentials",
    min_version=0,
    max_version=0,
    handle=handle,
    names_resources=True,
    only_reads=True,
    needs=(Need(Resource.CLUSTER, Verb.DESCRIBE),),
)
