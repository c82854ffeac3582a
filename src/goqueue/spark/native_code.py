"""Functions compiled to machine code, once per machine.

The compiled code is kept on disk: in `__pycache__` beside the source, or where that cannot be
written, in a folder of the user's. Compiled code holds no Python object, and threads go on.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def native(function: Function) -> Function:
    """Compile when first called. Arguments are numbers, addresses and numpy arrays."""
    from numba import njit

    compiled = njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")(function)
    return cast(Function, compiled)
