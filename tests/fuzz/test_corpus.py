"""Every input that was ever worth keeping still keeps its target's promise."""

import pytest

from goqueue.doors.kafka.handlers import OPERATIONS
from goqueue.doors.sqs.actions import ACTIONS
from tests.fuzz import corpus
from tests.fuzz.catalogue import WATCHED, load_target
from tests.fuzz.recorded import names_a_folder
from tests.fuzz.seeds.tables import inputs_of
from tests.fuzz.target import INPUT_MAX_BYTES, Target, judge

# Of all targets together: it is cloned by everybody.
CORPUS_MAX_BYTES = 1_500_000
# Other processes share the cores while tests run.
SLOWNESS = 3


@pytest.mark.parametrize("name", WATCHED)
def test_promises_are_kept(name: str) -> None:
    target = load_target(name)
    inputs = inputs_of(name)
    assert inputs
    try:
        for member, data in inputs.items():
            assert len(data) <= INPUT_MAX_BYTES, member
            _judge(target, member, data)
    finally:
        if target.close is not None:
            target.close()


def _judge(target: Target, member: str, data: bytes) -> None:
    try:
        judge(target, data, slowness=SLOWNESS)
    except Exception as error:
        error.add_note(f"by {member} of {corpus.path_of(target.name)}")
        raise


def test_the_corpus_is_small() -> None:
    sizes = {path.name: path.stat().st_size for path in corpus.FOLDER.iterdir()}
    assert sum(sizes.values()) < CORPUS_MAX_BYTES, sizes
    assert set(sizes) == {f"{name}.zip" for name in WATCHED}


def test_nothing_of_a_machine_is_in_it() -> None:
    found = [
        f"{name}: {member}"
        for name in WATCHED
        for member, data in corpus.load(name).items()
        if member.startswith("recorded/") and names_a_folder(data)
    ]
    assert not found


def test_every_kafka_operation_and_version_has_a_seed() -> None:
    versions = {
        (data[:2], data[2:4])
        for member, data in inputs_of("kafka_requests").items()
        if not member.startswith("found/")
    }
    for operation in OPERATIONS.values():
        for version in range(operation.min_version, operation.max_version + 1):
            head = (operation.api_key.to_bytes(2, "big"), version.to_bytes(2, "big"))
            assert head in versions, f"{operation.name} version {version}"


def test_every_sqs_action_has_a_seed_in_both_protocols() -> None:
    inputs = list(inputs_of("sqs_requests").values())
    for action in ACTIONS:
        asked = f"Action={action}&".encode()
        assert any(data.startswith(f"JSON {action}\n".encode()) for data in inputs), action
        assert any(data.startswith(b"FORM\n") and asked in data for data in inputs), action
