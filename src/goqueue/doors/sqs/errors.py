"""What the door answers when it refuses, with the codes of both protocols.

Names, codes and statuses are those of the SQS API reference ("Errors" of each action, "Common
errors"). In the JSON protocol `__type` names the shape and the header `x-amzn-query-error` has the
code of the older query protocol, which SDKs still show.
"""

from enum import Enum
from typing import NamedTuple

_SQS = "com.amazonaws.sqs"
_COMMON = "com.amazon.coral.service"
_QUERY = "AWS.SimpleQueueService."


class _Code(NamedTuple):
    shape: str
    query_code: str
    status: int = 400
    namespace: str = _SQS
    is_sender: bool = True


class ErrorKind(Enum):
    BATCH_ENTRY_IDS_NOT_DISTINCT = _Code(
        "BatchEntryIdsNotDistinct", f"{_QUERY}BatchEntryIdsNotDistinct"
    )
    BATCH_REQUEST_TOO_LONG = _Code("BatchRequestTooLong", f"{_QUERY}BatchRequestTooLong")
    EMPTY_BATCH_REQUEST = _Code("EmptyBatchRequest", f"{_QUERY}EmptyBatchRequest")
    INVALID_ADDRESS = _Code("InvalidAddress", "InvalidAddress", 404)
    INVALID_ATTRIBUTE_NAME = _Code("InvalidAttributeName", "InvalidAttributeName")
    INVALID_ATTRIBUTE_VALUE = _Code("InvalidAttributeValue", "InvalidAttributeValue")
    INVALID_BATCH_ENTRY_ID = _Code("InvalidBatchEntryId", f"{_QUERY}InvalidBatchEntryId")
    INVALID_MESSAGE_CONTENTS = _Code("InvalidMessageContents", "InvalidMessageContents")
    MESSAGE_NOT_IN_FLIGHT = _Code("MessageNotInflight", f"{_QUERY}MessageNotInflight")
    OVER_LIMIT = _Code("OverLimit", "OverLimit", 403)
    PURGE_QUEUE_IN_PROGRESS = _Code("PurgeQueueInProgress", f"{_QUERY}PurgeQueueInProgress", 403)
    QUEUE_DOES_NOT_EXIST = _Code("QueueDoesNotExist", f"{_QUERY}NonExistentQueue")
    QUEUE_NAME_EXISTS = _Code("QueueNameExists", "QueueAlreadyExists")
    RECEIPT_HANDLE_IS_INVALID = _Code("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 404)
    REQUEST_THROTTLED = _Code("RequestThrottled", "RequestThrottled", 403)
    RESOURCE_NOT_FOUND = _Code("ResourceNotFoundException", "ResourceNotFoundException", 404)
    TOO_MANY_ENTRIES = _Code(
        "TooManyEntriesInBatchRequest", f"{_QUERY}TooManyEntriesInBatchRequest"
    )
    UNSUPPORTED_OPERATION = _Code("UnsupportedOperation", f"{_QUERY}UnsupportedOperation")
    # Those of every AWS service.
    ACCESS_DENIED = _Code("AccessDeniedException", "AccessDenied", 403, _COMMON)
    INCOMPLETE_SIGNATURE = _Code(
        "IncompleteSignatureException", "IncompleteSignature", 400, _COMMON
    )
    INVALID_CLIENT_TOKEN_ID = _Code(
        "UnrecognizedClientException", "InvalidClientTokenId", 403, _COMMON
    )
    MISSING_AUTHENTICATION_TOKEN = _Code(
        "MissingAuthenticationTokenException", "MissingAuthenticationToken", 403, _COMMON
    )
    REQUEST_EXPIRED = _Code("RequestExpired", "RequestExpired", 400, _COMMON)
    SIGNATURE_DOES_NOT_MATCH = _Code(
        "InvalidSignatureException", "SignatureDoesNotMatch", 403, _COMMON
    )
    INTERNAL_FAILURE = _Code("InternalFailure", "InternalFailure", 500, _COMMON, is_sender=False)
    INVALID_ACTION = _Code("UnknownOperationException", "InvalidAction", 400, _COMMON)
    INVALID_PARAMETER_VALUE = _Code(
        "InvalidParameterValueException", "InvalidParameterValue", 400, _COMMON
    )
    MALFORMED = _Code("SerializationException", "MalformedInput", 400, _COMMON)
    MISSING_PARAMETER = _Code("MissingRequiredParameterException", "MissingParameter", 400, _COMMON)
    REQUEST_TOO_LARGE = _Code(
        "RequestEntityTooLargeException", "RequestEntityTooLarge", 413, _COMMON
    )
    SERVICE_UNAVAILABLE = _Code(
        "ServiceUnavailableException", "ServiceUnavailable", 503, _COMMON, is_sender=False
    )

    @property
    def json_type(self) -> str:
        return f"{self.value.namespace}#{self.value.shape}"

    @property
    def query_code(self) -> str:
        return self.value.query_code

    @property
    def status(self) -> int:
        return self.value.status

    @property
    def is_sender(self) -> bool:
        """Whether the caller is to blame."""
        return self.value.is_sender


class SqsError(Exception):
    """`query_message` where the query protocol words it otherwise."""

    def __init__(self, kind: ErrorKind, message: str, query_message: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.query_message = query_message or message


def invalid_value(message: str) -> SqsError:
    return SqsError(ErrorKind.INVALID_PARAMETER_VALUE, message)


def invalid_parameter(name: str, value: object, reason: str) -> SqsError:
    return invalid_value(f"Value {value} for parameter {name} is invalid. Reason: {reason}")


def missing(name: str) -> SqsError:
    return SqsError(ErrorKind.MISSING_PARAMETER, f"The request must contain the parameter {name}.")


def no_such_queue() -> SqsError:
    return SqsError(
        ErrorKind.QUEUE_DOES_NOT_EXIST,
        "The specified queue does not exist.",
        "The specified queue does not exist for this wsdl version.",
    )
