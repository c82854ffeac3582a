"""Requests, answers and errors against the model of the API that botocore ships."""

from typing import Any

import botocore.session
import msgspec
import pytest

from goqueue.doors.sqs import answers
from goqueue.doors.sqs.actions import ACTIONS
from goqueue.doors.sqs.errors import ErrorKind
from goqueue.doors.sqs.query_protocol import answer_xml

MODEL: Any = botocore.session.get_session().get_service_model("sqs")

ANSWERS: dict[str, type[msgspec.Struct]] = {
    "CancelMessageMoveTask": answers.MovedSoFar,
    "ChangeMessageVisibilityBatch": answers.Batch,
    "CreateQueue": answers.QueueUrl,
    "DeleteMessageBatch": answers.Batch,
    "GetQueueAttributes": answers.Attributes,
    "GetQueueUrl": answers.QueueUrl,
    "ListDeadLetterSourceQueues": answers.SourceQueueUrls,
    "ListMessageMoveTasks": answers.MoveTasks,
    "ListQueueTags": answers.Tags,
    "ListQueues": answers.QueueUrls,
    "ReceiveMessage": answers.Messages,
    "SendMessage": answers.Sent,
    "SendMessageBatch": answers.Batch,
    "StartMessageMoveTask": answers.TaskHandle,
}


def names(struct: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


def test_every_action_is_there() -> None:
    assert set(ACTIONS) == set(MODEL.operation_names)


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_requests_take_all_members(action: str) -> None:
    members = set(MODEL.operation_model(action).input_shape.members)
    taken = names(ACTIONS[action].request)
    # The one map that JSON clients spell in lower case is upper case in the query protocol.
    assert taken - {"Tags"} | (members & {"Tags"}) == members


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_answers_have_the_members_of_the_model(action: str) -> None:
    shape = MODEL.operation_model(action).output_shape
    if shape is None:
        assert action not in ANSWERS
        return
    assert names(ANSWERS[action]) == set(shape.members)


def test_empty_lists_of_batches_are_left_out() -> None:
    """The model requires both, the service leaves out an empty one since it speaks JSON: clients of
    2023 broke on it (aws/aws-sdk#657), those of today on the opposite: `hasFailed` of the Java SDK
    is true if there is a list (localstack/localstack#9998)."""
    done = answers.Batch(successful=[answers.DoneEntry(id="a")])
    assert msgspec.json.encode(done) == b'{"Successful":[{"Id":"a"}]}'
    entry = answers.FailedEntry(id="a", sender_fault=True, code="c", message="m")
    failed = msgspec.to_builtins(answers.Batch(failed=[entry]))
    assert failed.keys() == {"Failed"}
    assert b"ResultEntry>" not in answer_xml("DeleteMessageBatch", failed, "id-1")


def test_parts_of_answers() -> None:
    assert names(answers.Message) == set(MODEL.shape_for("Message").members)
    assert names(answers.FailedEntry) == set(MODEL.shape_for("BatchResultErrorEntry").members)
    entry = MODEL.shape_for("SendMessageBatchResultEntry")
    assert names(answers.SentEntry) == set(entry.members)
    task = MODEL.shape_for("ListMessageMoveTasksResultEntry")
    assert names(answers.MoveTask) == set(task.members)


def test_errors_of_the_service_are_in_the_model() -> None:
    shapes = {shape.name for shape in MODEL.error_shapes}
    own = [kind for kind in ErrorKind if kind.json_type.startswith("com.amazonaws.sqs#")]
    assert {kind.value.shape for kind in own} <= shapes


def test_every_answer_can_be_written_as_xml() -> None:
    sent = answers.SentEntry(id="a", message_id="m", body_md5="d")
    batch = answers.Batch(successful=[sent])
    document = answer_xml("SendMessageBatch", msgspec.to_builtins(batch), "id")
    assert b"<SendMessageBatchResultEntry>" in document
    assert b"<MD5OfMessageBody>d</MD5OfMessageBody>" in document
