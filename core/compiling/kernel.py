"""The kernel, one loop over lanes that act, begin an episode or pause, and the functions that numba compiles into it.

Importing this module needs numba.

A tree of arrays is one array, a tuple or a named tuple of arrays, whose first axis is the lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import extending, from_dtype, njit, types
from numba.core import cgutils
from numba.np.arrayobj import load_item, populate_array, store_item

from .exact_numbers import BOOL, FLOAT, INT, WIDE, is_scalar, refuse, shown
from .layout import Stream

_WORD = ir.IntType(64)
_FLAGS, _INTEGERS = np.dtype(bool), np.dtype(np.int64)
intrinsic: Any = extending.intrinsic  # whose functions have one parameter more than their calls


def _array(context: Any, builder: Any, kind: Any, pointer: Any, lengths: Sequence[Any]) -> Any:
    """Returns the array at an address; it does not own its memory, and its elements are in C order."""
    strides = [_WORD(context.get_abi_sizeof(context.get_data_type(kind.dtype)))]
    for length in lengths[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    result = context.make_array(kind)(context, builder)
    populate_array(result, pointer, lengths, strides, strides[-1], meminfo=None)
    return result._getvalue()


@intrinsic
def array_at(typing: Any, address: Any, shape: Any, kind: Any) -> Any:
    """Returns the array at an address."""
    result: Any = types.Array(kind.dtype, len(shape), "C")

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], context.get_data_type(kind.dtype).as_pointer())
        return _array(context, builder, result, pointer, cgutils.unpack_tuple(builder, arguments[1]))

    return result(types.int64, shape, kind), build


def tree_at(example: Any) -> Any:
    """Returns a function of a table of addresses, the index of the first address, and the number of lanes.

    The function returns the tree of arrays at these addresses; `example` is one lane of it.
    """
    parts = [np.asarray(part) for part in (example if isinstance(example, tuple) else (example,))]
    kinds = [types.Array(from_dtype(part.dtype), 1 + part.ndim, "C") for part in parts]
    tree: Any = types.BaseTuple.from_types(kinds, type(example)) if isinstance(example, tuple) else kinds[0]

    @intrinsic
    def arrays_at(typing: Any, table: Any, first: Any, n: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            own, found = context.make_array(table)(context, builder, arguments[0]), list[Any]()
            for k, (part, kind) in enumerate(zip(parts, kinds, strict=True)):
                place = builder.add(arguments[1], _WORD(k))
                address = builder.load(cgutils.get_item_pointer(context, builder, table, own, [place]))
                pointer = builder.inttoptr(address, context.get_data_type(kind.dtype).as_pointer())
                found.append(_array(context, builder, kind, pointer, [arguments[2], *map(_WORD, part.shape)]))
            return context.make_tuple(builder, tree, found) if isinstance(example, tuple) else found[0]

        return tree(table, INT, INT), build

    return arrays_at


def _parts(tree: Any) -> list[Any]:
    """Returns the types of the parts of a tree."""
    return list(getattr(tree, "types", [tree]))


def _values(builder: Any, tree: Any, value: Any) -> list[Any]:
    """Returns the parts of a tree."""
    return cgutils.unpack_tuple(builder, value) if isinstance(tree, types.BaseTuple) else [value]


@intrinsic
def view_of(typing: Any, tree: Any, lane: Any) -> Any:
    """Reads one lane of a tree of arrays; its arrays share the memory of the lanes."""
    rows = _parts(tree)
    kinds = [types.Array(one.dtype, one.ndim - 1, "C") if one.ndim > 1 else one.dtype for one in rows]
    is_tuple = isinstance(tree, types.BaseTuple)
    result: Any = types.BaseTuple.from_types(kinds, getattr(tree, "instance_class", None)) if is_tuple else kinds[0]

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found: list[Any] = []
        for row, kind, value in zip(rows, kinds, _values(builder, tree, arguments[0]), strict=True):
            own = context.make_array(row)(context, builder, value)
            place = [arguments[1], *[_WORD(0)] * (row.ndim - 1)]
            pointer = cgutils.get_item_pointer(context, builder, row, own, place)
            if row.ndim == 1:
                found.append(load_item(context, builder, row, pointer))
            else:
                lengths = cgutils.unpack_tuple(builder, own.shape)[1:]
                found.append(_array(context, builder, kind, pointer, lengths))
        return context.make_tuple(builder, result, found) if is_tuple else found[0]

    return result(tree, INT), build


def bounds_check(bounds: Sequence[tuple[Any, Any] | None]) -> Any:
    """Returns a function of actions and a lane; it returns the number of the first leaf out of bounds, or 0.

    Args:
        bounds: The least and the greatest value of each element, by leaf; None for a leaf without bounds.
    """

    @intrinsic
    def outside(typing: Any, actions: Any, lane: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            result = _WORD(0)
            leaves = [*zip(_parts(actions), _values(builder, actions, arguments[0]), bounds, strict=True)]
            for number, (kind, value, limits) in reversed([*enumerate(leaves, 1)]):
                own = context.make_array(kind)(context, builder, value)
                compare = builder.icmp_signed if limits is None or kind.dtype.signed else builder.icmp_unsigned
                for place in np.ndindex(limits[0].shape) if limits is not None else ():
                    pointer = cgutils.get_item_pointer(context, builder, kind, own, [arguments[1], *map(_WORD, place)])
                    element = load_item(context, builder, kind, pointer)
                    for sign, limit in zip("<>", cast("Any", limits), strict=True):
                        if np.isfinite(limit[place]):
                            wrong = compare(sign, element, element.type(int(limit[place])))
                            result = builder.select(wrong, _WORD(number), result)
            return result

        return INT(actions, INT), build

    return outside


def _check_stored(rows: Any, value: Any) -> list[Any]:
    """Checks that a value fits an array of lanes, and returns the types of its numbers."""
    is_tuple = isinstance(value, types.BaseTuple)
    kinds = [types.unliteral(kind) for kind in getattr(value, "types", [getattr(value, "dtype", value)])]
    axes = 1 if is_tuple else getattr(value, "ndim", 0)
    if not all(map(is_scalar, kinds)) or rows.ndim != 1 + axes:
        raise refuse(f"observe: it returns {shown(value)}, of another shape than observation_spec has")
    is_real = isinstance(rows.dtype, types.Float)
    for kind in kinds:
        if not is_real and kind not in (rows.dtype, BOOL, *([INT] * isinstance(rows.dtype, types.Integer))):
            raise refuse(f"observe: it returns {shown(kind)} where the spec has {shown(rows.dtype)}; convert it")
    return kinds


@intrinsic
def store(typing: Any, tree: Any, lane: Any, value: Any) -> Any:
    """Stores a lane's value in a tree of arrays: numbers, arrays, or tuples with the elements of an array."""
    several = isinstance(tree, types.BaseTuple)
    rows, given = _parts(tree), _parts(value) if several else [value]
    if (several and not isinstance(value, types.BaseTuple)) or len(rows) != len(given):
        raise refuse(f"observe: it returns {shown(value)}, and observation_spec has {len(rows)} parts")
    kinds = [_check_stored(*pair) for pair in zip(rows, given, strict=True)]

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = _values(builder, tree, arguments[0])
        values = _values(builder, value, arguments[2]) if several else [arguments[2]]
        own = signature.args[2].types if several else [signature.args[2]]  # with literals
        for row, array, kind, one, numbers in zip(rows, arrays, own, values, kinds, strict=True):
            _store_one(context, builder, row, array, arguments[1], kind, one, numbers)
        return context.get_dummy_value()

    return types.none(tree, INT, value), build


def _store_one(
    context: Any, builder: Any, rows: Any, array: Any, lane: Any, value: Any, given: Any, kinds: Sequence[Any]
) -> None:
    own, is_tuple = context.make_array(rows)(context, builder, array), isinstance(value, types.BaseTuple)

    def put(number: Any, kind: Any, to: Any, *place: Any) -> None:
        wide = FLOAT if isinstance(rows.dtype, types.Float) and to in WIDE else to
        for source, target in pairwise((kind, to, wide, rows.dtype)):
            number = context.cast(builder, number, source, target)
        pointer = cgutils.get_item_pointer(context, builder, rows, own, [lane, *place])
        store_item(context, builder, rows, number, pointer)

    sizes = cgutils.unpack_tuple(builder, own.shape)[1:]
    inner = context.make_array(value)(context, builder, given) if isinstance(value, types.Array) else None
    lengths = [_WORD(len(kinds))] if is_tuple else [] if inner is None else cgutils.unpack_tuple(builder, inner.shape)
    for size, length in zip(sizes, lengths, strict=True):
        with builder.if_then(builder.icmp_signed("!=", size, length), likely=False):
            what = "observe: it returns another shape than observation_spec has; or a state has another than the first"
            context.call_conv.return_user_exc(builder, ValueError, (what,))
    if inner is not None:
        with cgutils.loop_nest(builder, sizes, _WORD) as place:
            number = cgutils.get_item_pointer(context, builder, value, inner, place)
            put(load_item(context, builder, value, number), kinds[0], kinds[0], *place)
    elif is_tuple:
        for k, (kind, to) in enumerate(zip(_parts(value), kinds, strict=True)):
            put(builder.extract_value(given, k), kind, to, _WORD(k))
    else:
        put(given, value, kinds[0])


@njit
def keep_stream(saved: Any, bits: Any, lane: Any, which: Any) -> None:
    """Saves the state of a lane's generator, see `envoi.seeding.addresses`, unless its kind is unusual."""
    numbers = bits[lane, 8 + which]
    if numbers != 0:
        words = array_at(numbers, (4,), _INTEGERS)
        for k in range(4):
            saved[lane, 5 * which + k] = words[k]
        saved[lane, 10 + which] = 1
        saved[lane, 5 * which + 4] = array_at(bits[lane, 4 * which] + 8, (1,), _INTEGERS)[0]


def make_kernel(
    transition: Any,
    observe: Any,
    reward: Any,
    terminal: Any,
    truncated: Any,  # None if not defined, like `discount`; `initial` is None if Python calls it
    discount: Any,
    initial: Any,
    states_at: Any,
    outside: Any,
    leaves: int,
    settings_kind: Any,
    contexts_kind: Any,
    moves_at_random: bool,
    begins_at_random: bool,
    seen_at_random: bool,
) -> Callable[..., int]:
    """Returns the kernel of a model, in which its functions and layout are constants.

    The kernel returns the number of lanes that ended, or a negative code of the first error (see `Runner.refuse`).
    `table` has the addresses of the runner's arrays, see `Runner`.
    """

    def kernel(
        table: Any, limit: Any, restart: Any, actions: Any, observations: Any, rewards: Any, discounts: Any
    ) -> int:
        n = table[0]
        if len(restart) != n:
            raise ValueError("another number of values than there are lanes")
        hold = array_at(table[1], (n,), _FLAGS)
        ends = array_at(table[2], (3, n), _FLAGS)
        progress = array_at(table[3], (2,), _INTEGERS)
        saved = array_at(table[4], (n, 12), _INTEGERS)
        settings = array_at(table[5], (n,), settings_kind)
        bits = array_at(table[6], (n, 12), _INTEGERS)
        contexts = array_at(table[7], (table[8],), contexts_kind)
        coming = array_at(table[9], (table[10],), _INTEGERS)
        first = table[11]  # the first place for lanes that begin, in order; negative if there is one per lane
        over, over_after = array_at(table[12], (n,), _FLAGS), array_at(table[15], (n,), _FLAGS)
        place, place_after = array_at(table[13], (n,), _INTEGERS), array_at(table[16], (n,), _INTEGERS)
        elapsed, elapsed_after = array_at(table[14], (n,), _INTEGERS), array_at(table[17], (n,), _INTEGERS)
        before, after = states_at(table, 18, n), states_at(table, 18 + leaves, n)
        fresh = states_at(table, 18 + 2 * leaves, n)

        wrong = False
        for i in range(n):
            wrong |= (over[i] | (outside(actions, i) != 0)) & (not (restart[i] | hold[i]))
        if wrong:
            for i in range(n):
                if not (restart[i] or hold[i]) and (over[i] or outside(actions, i) != 0):
                    return -1 - i if over[i] else -1 - outside(actions, i) * n - i

        last = limit - 1 if limit > 0 else 2**62
        begun = ended = 0
        for i in range(n):
            progress[0] = i
            saved[i, 10] = saved[i, 11] = 0
            own = settings[i]
            is_over = is_cut = False
            place_after[i], elapsed_after[i] = place[i], elapsed[i]
            if hold[i]:
                store(after, i, view_of(before, i))
                rewards[i] = 0
            elif restart[i]:
                row = coming[i] if first < 0 else coming[first + begun]
                if initial is None:
                    store(after, i, view_of(fresh, begun))
                else:
                    if begins_at_random:
                        keep_stream(saved, bits, i, 0)
                    dynamics = Stream(bits[i, 0], bits[i, 1], bits[i, 2], bits[i, 3])
                    store(after, i, initial(own, dynamics, contexts[row]))
                rewards[i] = 0
                place_after[i], elapsed_after[i] = row, 0
                begun += 1
            else:
                elapsed_after[i] += 1
                if moves_at_random:
                    keep_stream(saved, bits, i, 0)
                dynamics = Stream(bits[i, 0], bits[i, 1], bits[i, 2], bits[i, 3])
                state, action = view_of(before, i), view_of(actions, i)
                new = transition(own, state, action, dynamics)
                store(after, i, new)
                store(rewards, i, reward(own, state, action, new))
            if not hold[i]:
                if seen_at_random:
                    keep_stream(saved, bits, i, 1)
                noise = Stream(bits[i, 4], bits[i, 5], bits[i, 6], bits[i, 7])
                now = view_of(after, i)
                store(observations, i, observe(own, now, noise))
                if not restart[i]:
                    is_over = bool(terminal(own, now))
                    if truncated is not None:
                        is_cut = bool(truncated(own, now))
                    is_cut = is_cut or elapsed[i] >= last
                    if discount is not None:
                        store(discounts, i, discount(own, now))
                    ended += is_over or is_cut
            if discount is not None and (hold[i] or restart[i]):
                discounts[i] = 1
            ends[0, i], ends[1, i], ends[2, i] = is_over, is_cut, is_over or is_cut
            over_after[i] = over[i] if hold[i] else is_over or is_cut
        progress[1] = begun
        return ended

    return kernel
