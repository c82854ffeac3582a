"""How the suite is spread over processes: a file stays together, and so does all of Spark."""

from collections.abc import Sequence
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """A file shares its fixtures; the tests in `spark` share one session, which takes seconds."""
    for item in items:
        path = item.path.relative_to(_TESTS)
        group = "spark" if path.parts[0] == "spark" else str(path)
        item.add_marker(pytest.mark.xdist_group(group))
