"""The API document against the server that it describes."""

from pathlib import Path

from tests.fuzz.http_api import problems, small_server
from tests.interop.servers import NewServer

EXAMPLES_PER_OPERATION = 15
# A third of it is enough on a quiet machine; pytest ends the test at 300.
TIMEOUT_SECONDS = 280


def test_every_operation_does_what_the_document_says(new_server: NewServer, tmp_path: Path) -> None:
    with small_server(tmp_path, new_server) as server:
        wrong = problems(
            server,
            tmp_path,
            examples=EXAMPLES_PER_OPERATION,
            seed=1,
            seconds_max=TIMEOUT_SECONDS,
        )
    assert not wrong, wrong
