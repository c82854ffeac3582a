"""The texts of several workers as one: every sample says whose it is.

Prometheus wants each family once, with all of its samples behind it, so samples of the same family
are brought together. The texts are our own, line by line as `prometheus_client` writes them.
"""

from collections.abc import Iterator, Mapping

_UP = b"goqueue_worker_up"


def together(texts: Mapping[int, bytes | None]) -> bytes:
    """`None` is the text of a worker that does not answer."""
    # Of each family its HELP and TYPE, as one worker has them, then the samples of all.
    heads: dict[bytes, tuple[int, list[bytes]]] = {}
    samples: dict[bytes, list[bytes]] = {}
    for worker, text in texts.items():
        label = b'worker="%d"' % worker
        for family, line in _lines(text or b""):
            if not line.startswith(b"#"):
                samples.setdefault(family, []).append(_labelled(line, label))
            elif heads.setdefault(family, (worker, []))[0] == worker:
                heads[family][1].append(line)
    parts = [
        b"# HELP %b 1 if the worker tells its figures, else 0." % _UP,
        b"# TYPE %b gauge" % _UP,
        *(b'%b{worker="%d"} %d.0' % (_UP, worker, bool(text)) for worker, text in texts.items()),
    ]
    for family, (_, head) in heads.items():
        parts += head
        parts += samples.get(family, ())
    return b"\n".join((*parts, b""))


def _lines(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each with the family that it belongs to: the one whose head came last."""
    family = b""
    for line in filter(None, text.split(b"\n")):
        if line.startswith(b"# "):
            family = line.split(b" ", 3)[2]
        yield family, line


def _labelled(line: bytes, label: bytes) -> bytes:
    """`name{…} value` or `name value`; a name has neither brace nor space."""
    name_end = line.index(b" ")
    brace = line.find(b"{", 0, name_end)
    if brace < 0:
        return b"%b{%b}%b" % (line[:name_end], label, line[name_end:])
    return b"%b{%b,%b" % (line[:brace], label, line[brace + 1 :])
