"""Memory by address, for compiled functions: each of these becomes one machine instruction or two.

Numba counts references to arrays with locked instructions around every call that takes one. In a
function that runs per record that is nine tenths of the time. Addresses are plain numbers, so such
functions also compile in a third of the time. The price: nothing checks an address. Whoever calls
`load` or `store` has compared it with the end of the memory it belongs to, and whoever passes an
address into compiled code keeps the array or buffer alive until the call returns.

Numbers are little-endian, as on every machine that Spark runs on, and need no alignment. Compiled
functions are told most of what they need, and tell what they found, in tables of 64-bit words.
"""

from collections.abc import Callable
from typing import Any, Final, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from goqueue.spark.native_code import native

WORD_BYTES: Final = 8
_BYTE_BITS = 8
_BYTE = ir.IntType(_BYTE_BITS).as_pointer()
_WORD = ir.IntType(64)


def _load(bits: int) -> Callable[[int], int]:
    @intrinsic
    def load(_typing: Any, _address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            place = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(place, align=1)
            if bits == _WORD.width:
                return value
            # A byte is 0 to 255; wider ones have a sign.
            extend = builder.zext if bits == _BYTE_BITS else builder.sext
            return extend(value, _WORD)

        return types.int64(types.int64), generate

    return cast(Callable[[int], int], load)


def _store(bits: int) -> Callable[[int, int], None]:
    @intrinsic
    def store(_typing: Any, _address: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            place = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = arguments[1]
            if bits < _WORD.width:
                value = builder.trunc(value, ir.IntType(bits))
            builder.store(value, place, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return cast(Callable[[int, int], None], store)


load8, load32, load64 = _load(8), _load(32), _load(64)
store8, store32, store64 = _store(8), _store(32), _store(64)


@intrinsic
def _copy(_typing: Any, _target: Any, _source: Any, _length: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        target = builder.inttoptr(arguments[0], _BYTE)
        source = builder.inttoptr(arguments[1], _BYTE)
        copy = builder.module.declare_intrinsic("llvm.memcpy", [_BYTE, _BYTE, _WORD])
        builder.call(copy, [target, source, arguments[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


copy_bytes = cast(Callable[[int, int, int], None], _copy)
"""Arguments: the address to copy to, the address to copy from, the count of bytes. No overlap."""


@native
def same_bytes(first: int, second: int, length: int) -> bool:
    differing = 0
    for index in range(length):
        differing |= load8(first + index) ^ load8(second + index)
    return differing == 0


@native
def word_at(table: int, index: int) -> int:
    return load64(table + index * WORD_BYTES)


@native
def put_word(table: int, index: int, value: int) -> None:
    store64(table + index * WORD_BYTES, value)


@native
def add_to_word(table: int, index: int, number: int) -> None:
    put_word(table, index, word_at(table, index) + number)
