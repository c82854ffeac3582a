import pytest

from goqueue.doors.sqs.moving import _failure
from goqueue.model.errors import GoQueueError, PartitionOffline, TopicAccessDenied, UnknownTopic
from goqueue.model.queues.moves import UnknownOrigin


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (UnknownTopic.code, "AWS.SimpleQueueService.NonExistentQueue"),
        (UnknownOrigin.code, "AWS.SimpleQueueService.UnsupportedOperation"),
        (TopicAccessDenied.code, "AccessDenied"),
        (PartitionOffline.code, "ServiceUnavailable"),
        (GoQueueError.code, "InternalFailure"),
        # As older data folders have it.
        ("AWS.SimpleQueueService.NonExistentQueue", "AWS.SimpleQueueService.NonExistentQueue"),
    ],
)
def test_why_a_task_failed(stored: str, told: str) -> None:
    assert _failure(stored) == told
