import asyncio
import xml.etree.ElementTree as ElementTree

import pytest

from goqueue.doors.sqs.errors import ErrorKind, SqsError, no_such_queue
from goqueue.doors.sqs.query_protocol import (
    NAMESPACE,
    answer_xml,
    error_xml,
    parse_form,
    read_form,
    unflatten,
)


def unflattened(action: str, form: str) -> dict[str, object]:
    return unflatten(action, parse_form(form.encode()))


def test_maps_and_lists() -> None:
    assert unflattened(
        "CreateQueue",
        "QueueName=q&Attribute.2.Name=DelaySeconds&Attribute.2.Value=5"
        "&Attribute.1.Name=VisibilityTimeout&Attribute.1.Value=30&Tag.1.Key=a&Tag.1.Value=",
    ) == {
        "QueueName": "q",
        "Attributes": {"VisibilityTimeout": "30", "DelaySeconds": "5"},
        "Tags": {"a": ""},
    }


def test_members_are_ordered_by_number_not_as_text() -> None:
    form = "&".join(f"AttributeName.{n}=n{n}" for n in (10, 9, 2, 1))
    assert unflattened("ReceiveMessage", form) == {"AttributeNames": ["n1", "n2", "n9", "n10"]}


def test_a_single_member_needs_no_number() -> None:
    """As requests that are written by hand have it; it was passed over in silence."""
    assert unflattened("ReceiveMessage", "AttributeName=All") == {"AttributeNames": ["All"]}
    assert unflattened("SetQueueAttributes", "Attribute.Value=5&Attribute.Name=DelaySeconds") == {
        "Attributes": {"DelaySeconds": "5"}
    }


def test_entries_with_attributes_inside() -> None:
    entry = "SendMessageBatchRequestEntry.1."
    attribute = f"{entry}MessageAttribute.1."
    assert unflattened(
        "SendMessageBatch",
        f"{entry}Id=a&{entry}MessageBody=x%20y&{attribute}Name=n"
        f"&{attribute}Value.DataType=Number&{attribute}Value.StringValue=1",
    ) == {
        "Entries": [
            {
                "Id": "a",
                "MessageBody": "x y",
                "MessageAttributes": {"n": {"DataType": "Number", "StringValue": "1"}},
            }
        ]
    }


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("Attribute.x.Name=a&Attribute.x.Value=b", ErrorKind.MALFORMED),
        ("Attribute.1.Name=a", ErrorKind.MISSING_PARAMETER),
        ("Attribute.1.Name.x=a&Attribute.1.Value=b", ErrorKind.MALFORMED),
        ("Attribute=1&Attribute.1.Name=a", ErrorKind.MALFORMED),
        ("Attribute=1", ErrorKind.MISSING_PARAMETER),
        ("Attribute.Name=a", ErrorKind.MISSING_PARAMETER),
        (
            "Attribute.Name=a&Attribute.Value=b&Attribute.1.Name=c&Attribute.1.Value=d",
            ErrorKind.MALFORMED,
        ),
        ("a=%ff", ErrorKind.MALFORMED),
        ("&".join(f"a{n}=1" for n in range(1_001)), ErrorKind.MALFORMED),
    ],
)
def test_bad_forms(form: str, kind: ErrorKind) -> None:
    with pytest.raises(SqsError) as caught:
        unflattened("CreateQueue", form)
    assert caught.value.kind is kind


def elements(document: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(document)


def test_answers_are_flattened() -> None:
    answer = {
        "Messages": [
            {
                "Body": "a < b & c\r\n",
                "Attributes": {"SenderId": "0"},
                "MessageAttributes": {"n": {"DataType": "Number", "StringValue": "1"}},
            },
            {"Body": ""},
        ]
    }
    root = elements(answer_xml("ReceiveMessage", answer, "id-1"))
    names = {"q": NAMESPACE}
    first, second = root.findall("q:ReceiveMessageResult/q:Message", names)
    assert first.findtext("q:Body", namespaces=names) == "a < b & c\r\n"
    assert first.findtext("q:Attribute/q:Value", namespaces=names) == "0"
    value = "q:MessageAttribute/q:Value/q:StringValue"
    assert first.findtext(value, namespaces=names) == "1"
    assert second.findtext("q:Body", namespaces=names) == ""
    assert root.findtext("q:ResponseMetadata/q:RequestId", namespaces=names) == "id-1"


def test_an_answer_with_nothing_has_no_result() -> None:
    root = elements(answer_xml("DeleteMessage", None, "id-1"))
    assert [child.tag for child in root] == [f"{{{NAMESPACE}}}ResponseMetadata"]


def test_truth_values_are_xml_ones() -> None:
    failed = [{"Id": "a", "SenderFault": True, "Code": "c", "Message": "m"}]
    document = answer_xml("SendMessageBatch", {"Failed": failed}, "id-1")
    assert b"<BatchResultErrorEntry><Id>a</Id><SenderFault>true</SenderFault>" in document


def test_what_xml_cannot_hold_is_replaced() -> None:
    """Errors quote what the client sent, and a key that a Kafka client wrote becomes a group id."""
    refused = SqsError(ErrorKind.MALFORMED, "a\0b\x1f\ufffe\ud800")
    message = elements(error_xml(refused, "id-1")).findtext(".//{*}Message")
    assert message == "a\ufffdb\ufffd\ufffd\ufffd"


def test_errors() -> None:
    root = elements(error_xml(no_such_queue(), "id-1"))
    names = {"q": NAMESPACE}
    assert root.tag == f"{{{NAMESPACE}}}ErrorResponse"
    code = root.findtext("q:Error/q:Code", namespaces=names)
    assert code == "AWS.SimpleQueueService.NonExistentQueue"
    assert root.findtext("q:Error/q:Type", namespaces=names) == "Sender"
    message = root.findtext("q:Error/q:Message", namespaces=names)
    assert message == "The specified queue does not exist for this wsdl version."
    assert root.findtext("q:RequestId", namespaces=names) == "id-1"


def test_others_are_served_while_a_large_form_is_read() -> None:
    async def scenario() -> None:
        reading = asyncio.create_task(read_form(b"MessageBody=" + b"%25" * 1_000_000))
        turns = 0
        while not reading.done():
            await asyncio.sleep(0.001)
            turns += 1
        assert reading.result() == {"MessageBody": "%" * 1_000_000}
        assert turns > 5

    asyncio.run(scenario())
