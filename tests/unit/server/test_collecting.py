"""Which objects the garbage collector looks at. In a process of its own: it has one collector."""

import subprocess
import sys

PROGRAM = """
import asyncio, gc, weakref
from goqueue.server import collecting

class Node:
    pass

def circle():
    node = Node()
    node.itself = node
    return node

async def main():
    taken_over = collecting.Collecting()
    taken_over.start()
    # What lives long: ten thousand partitions, say.
    kept = [[number] for number in range(300_000)]
    assert gc.get_count()[2] >= collecting.OLDEST, gc.get_count()
    taken_over.look()
    assert gc.get_freeze_count() > 300_000
    # No longer looked at, however much comes and goes.
    looked_at = []
    gc.callbacks.append(lambda phase, found: looked_at.append(found["generation"]))
    for _ in range(50):
        brief = [[number] for number in range(3_000)]
    assert 2 not in looked_at, "Python looks at everything by itself"

    # A circle among what is new is found.
    short = weakref.ref(circle())
    kept += [[number] for number in range(300_000)]
    taken_over.look()
    assert short() is None

    # One that had been set apart is found when the process has grown by half.
    node = circle()
    long = weakref.ref(node)
    gc.freeze()
    del node
    gc.collect()
    assert long() is not None
    taken_over.look()
    assert long() is not None
    grown = bytearray(b"x" * 900_000_000)
    taken_over.look()
    assert long() is None
    taken_over.stop()
    print("done")

asyncio.run(main())
"""


WITHOUT_FILES = """
import asyncio, os, resource
from goqueue.server import collecting

async def main():
    taken_over = collecting.Collecting()
    taken_over.start()
    taken_over.stop()
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    opened = []
    try:
        while True:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    # As by its timer, which is set anew.
    taken_over.look()
    assert taken_over._timer is not None
    taken_over.stop()
    for each in opened:
        os.close(each)
    print("done")

asyncio.run(main())
"""


def run(program: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.stdout == "done\n", ended.stderr


def test_what_lives_long_is_looked_at_when_the_process_has_grown() -> None:
    run(PROGRAM)


def test_a_flood_of_connections_that_takes_all_file_descriptors_does_not_end_it() -> None:
    run(WITHOUT_FILES)
