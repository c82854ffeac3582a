"""AlterUserScramCredentials (KIP-554): make users, change and remove what they log in by."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from goqueue.doors.kafka.errors import error_code
from goqueue.doors.kafka.operation import Operation, RequestContext
from goqueue.doors.kafka.scram_mechanisms import NAMES
from goqueue.doors.kafka.wire.writing import Message
from goqueue.model.rights import Resource, Verb
from goqueue.model.security.scram_changes import ScramChange, ScramDeletion, ScramUpsertion
from goqueue.service.needs import Need, Refused

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.request import (
        AlterUserScramCredentialsRequest,
    )


async def handle(context: RequestContext, request: "AlterUserScramCredentialsRequest") -> Message:
    changes: list[ScramChange] = [
        ScramDeletion(each.name, NAMES.get(each.mechanism, "")) for each in request.deletions
    ]
    changes += [
        ScramUpsertion(
            each.name,
            NAMES.get(each.mechanism, ""),
            each.iterations,
            bytes(each.salt),
            bytes(each.salted_password),
        )
        for each in request.upsertions
    ]
    told = await context.service.users.alter_credentials(context.caller, changes)
    return {
        "results": [
            {
                "user": name,
                "error_code": ErrorCode.none if error is None else error_code(error),
                "error_message": None if error is None else error.message,
            }
            for name, error in told.items()
        ]
    }


OPERATION = Operation(
    api_key=51,
    name="AlterUserScramCredentials",
    min_version=0,
    max_version=0,
    handle=handle,
    names_resources=True,
    needs=(Need(Resource.CLUSTER, Verb.ALTER, refused=Refused.EACH),),
)
