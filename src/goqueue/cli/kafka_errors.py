"""aiokafka's exceptions as the errors of a command."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiokafka.errors import (
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
    kafka_errors,
)
from kio.schema.metadata.v12.response import MetadataResponse

from goqueue.cli.failures import CommandFailed
from goqueue.client.errors import BrokerUnreachable


class InvalidRecordError(BrokerResponseError):  # type: ignore[misc]  # aiokafka is untyped
    """INVALID_RECORD (KIP-467), which aiokafka does not know."""

    errno = 87
    message = "INVALID_RECORD"


_DENIED: Final = (
    TopicAuthorizationFailedError,
    GroupAuthorizationFailedError,
    ClusterAuthorizationFailedError,
)
kafka_errors[InvalidRecordError.errno] = InvalidRecordError


@contextmanager
def kafka_errors_as_failures(bootstrap: str) -> Iterator[None]:
    # It logs what it also raises; one line for the user is enough.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL + 1)
    try:
        yield
    except KafkaConnectionError as error:
        _look_closer(bootstrap)
        raise BrokerUnreachable(f"no broker answers at {bootstrap}") from error
    except (TimeoutError, KafkaTimeoutError) as error:
        raise BrokerUnreachable(f"the broker at {bootstrap} did not answer in time") from error
    except MessageSizeTooLargeError as error:
        raise CommandFailed(
            "a message is larger than the topic takes; "
            "raise its limit with `goqueue topics alter TOPIC --set max.message.bytes=…`"
        ) from error
    except InvalidRecordError as error:
        raise CommandFailed(
            "the topic does not take such a message: it wants another schema "
            "(`goqueue topics describe TOPIC`, schema.validation.…), a key, or other headers"
        ) from error
    except _DENIED as error:
        raise CommandFailed(_words(error)) from error
    except KafkaError as error:
        raise CommandFailed(_plain(error)) from error


def _look_closer(bootstrap: str) -> None:
    """aiokafka says of a log-in that failed, too, that nobody is there: our own client says why."""
    from goqueue.cli.security.connecting import kafka_security
    from goqueue.client.blocking_connection import connect_any
    from goqueue.client.questions import metadata_request

    with connect_any(bootstrap, kafka_security()) as connection:
        connection.call(metadata_request(()), MetadataResponse)


def _words(error: KafkaError) -> str:
    kind = type(error).__name__.removesuffix("AuthorizationFailedError").lower()
    return f"{kind} authorization failed"


def _plain(error: KafkaError) -> str:
    description = getattr(error, "description", "") or str(error) or type(error).__name__
    return f"the broker refused: {description[0].lower()}{description[1:].rstrip('.')}"
