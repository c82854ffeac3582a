"""Rights that are made for callers, by what they are to.

Purpose: each file makes the rights to one kind of thing, after `deciding.py` has said that the
caller may; `Access` (`security/access.py`) is all of them together. Nobody else makes rights.
State: none but what `Access` is given. Concurrency: the broker's event loop; `deciding.py` is asked
from threads, too.
"""
