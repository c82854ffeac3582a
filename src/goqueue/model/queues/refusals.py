"""Why an operation on a queue of SQS is refused, where no more general error says it."""

from goqueue.model.errors import GoQueueError, InvalidRequest


class UnknownAttribute(InvalidRequest):
    """A queue of this kind does not have the attribute."""

    code = "unknown_attribute"


class InvalidAttribute(InvalidRequest):
    """The attribute cannot have this value."""

    code = "invalid_attribute"


class QueueDiffers(GoQueueError):
    """A queue of this name is there, with other attributes than those asked for."""

    code = "queue_differs"


class PurgedJustNow(GoQueueError):
    """A queue is purged once a minute at most."""

    code = "purged_just_now"


class OverLimit(GoQueueError):
    """More of something than a queue may have."""

    code = "over_limit"
