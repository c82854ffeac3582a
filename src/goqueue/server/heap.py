"""Keeps the C heap from breathing in and out with every fetch.

A broker takes and frees megabyte buffers all day. With glibc's defaults each goes back to the
kernel and comes again as fresh pages to fault in and clear: about half of the CPU that reading 1 KB
messages takes. Keeping some memory instead costs a few tens of megabytes at most.
"""

import ctypes
from typing import Final

_MEGABYTE: Final = 1024 * 1024
# mallopt's numbers (malloc.h) and what we ask for.
_OPTIONS: Final = (
    (-1, 32 * _MEGABYTE),  # M_TRIM_THRESHOLD: free memory at the top of the heap that is kept
    (-2, 8 * _MEGABYTE),  # M_TOP_PAD: taken in one go when the heap must grow
    (-3, 16 * _MEGABYTE),  # M_MMAP_THRESHOLD: only larger buffers are mapped and unmapped
    (-8, 1),  # M_ARENA_MAX: one heap for all threads, or others would keep as much again
)


def keep_heap_memory() -> None:
    """Do nothing where the C library has no mallopt (musl, macOS)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in _OPTIONS:
            mallopt(option, value)
