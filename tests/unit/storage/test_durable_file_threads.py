"""Several threads read files of a kind that nobody has read before; in a process of their own,
since msgspec by itself ends it with a segmentation fault."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import threading
from pathlib import Path

import msgspec

from goqueue.storage.disk import Disk
from goqueue.storage.durable_file import load, save

sys.setswitchinterval(1e-6)
path = Path(sys.argv[1])
save(Disk(), path, {"one": {"x": 1}, "more": [{"x": 2}]})
for _ in range(200):
    Inner = msgspec.defstruct("Inner", [("x", int)], module=__name__)
    Outer = msgspec.defstruct("Outer", [("one", "Inner"), ("more", "list[Inner]")], module=__name__)
    together = threading.Barrier(6)

    def read():
        together.wait()
        assert load(Disk(), path, Outer).one.x == 1

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_the_first_of_a_kind_is_read_by_many_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "small.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stderr) == (0, "")
