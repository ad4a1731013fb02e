"""The kernel, one loop over lanes that act, begin an episode or pause, and the functions that numba compiles into it.

Importing this module needs numba.

A tree of arrays is one array, a tuple or a named tuple of arrays, whose first axis is the lanes.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import extending, from_dtype, njit, types
from numba.core import cgutils
from numba.core.compiler import Compiler
from numba.np.arrayobj import load_item, populate_array, store_item

from .exact_numbers import BOOL, FLOAT, INT, WIDE, is_scalar, refuse, shown
from .layout import INSIDE, Leaves, Stream

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


def _tree(context: Any, builder: Any, tree: Any, pointers: Sequence[Any], n: Any, shapes: Sequence[Any]) -> Any:
    found = [_array(context, builder, kind, pointer, [n, *map(_WORD, shape)])
             for kind, pointer, shape in zip(_parts(tree), pointers, shapes, strict=True)]  # fmt: skip
    return context.make_tuple(builder, tree, found) if isinstance(tree, types.BaseTuple) else found[0]


def tree_at(example: Any) -> Any:
    """Returns a function `(table of addresses, index, n) -> tree of arrays` for trees like one lane's example."""
    parts = [np.asarray(part) for part in (example if isinstance(example, tuple) else (example,))]
    kinds = [types.Array(from_dtype(part.dtype), 1 + part.ndim, "C") for part in parts]
    tree: Any = types.BaseTuple.from_types(kinds, type(example)) if isinstance(example, tuple) else kinds[0]

    @intrinsic
    def arrays_at(typing: Any, table: Any, first: Any, n: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            own, pointers = context.make_array(table)(context, builder, arguments[0]), list[Any]()
            for k, kind in enumerate(kinds):
                place = builder.add(arguments[1], _WORD(k))
                address = builder.load(cgutils.get_item_pointer(context, builder, table, own, [place]))
                pointers.append(builder.inttoptr(address, context.get_data_type(kind.dtype).as_pointer()))
            return _tree(context, builder, tree, pointers, arguments[2], [part.shape for part in parts])

        return tree(table, INT, INT), build

    return arrays_at


def shaped(shapes: Sequence[tuple[int, ...]]) -> Any:
    """Returns a function of a tree of arrays; it returns them with these shapes of a lane, as constants."""

    @intrinsic
    def arrays_of(typing: Any, tree: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pairs = zip(_parts(tree), _values(builder, tree, arguments[0]), strict=True)
            arrays = [context.make_array(kind)(context, builder, value) for kind, value in pairs]
            n = builder.extract_value(arrays[0].shape, 0)
            return _tree(context, builder, tree, [array.data for array in arrays], n, shapes)

        return tree(tree), build

    return arrays_of


def _parts(tree: Any) -> list[Any]:
    return list(getattr(tree, "types", [tree]))


def _values(builder: Any, tree: Any, value: Any) -> list[Any]:
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


def _tried(function: Any) -> Any:
    """Returns a function of a tuple of arguments; it returns if `function` raises an error, and its result."""

    @intrinsic
    def call(typing: Any, arguments: Any) -> Any:
        found = typing.resolve_function_type(types.Dispatcher(function), arguments.types, {})

        def build(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            made, values = function.get_compile_result(found), cgutils.unpack_tuple(builder, given[0])
            context.active_code_library.add_linking_library(made.library)
            status, result = context.call_internal_no_propagate(builder, made.fndesc, found, values)
            return context.make_tuple(builder, signature.return_type, [status.is_error, result])

        return types.Tuple([BOOL, found.return_type])(arguments), build

    return call


def bounds_check(bounds: Sequence[tuple[Any, Any] | None]) -> Any:
    """Returns a function of actions and a lane, which tells if an element is out of bounds, given by leaf."""

    @intrinsic
    def outside(typing: Any, actions: Any, lane: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            result = cgutils.false_bit
            leaves = zip(_parts(actions), _values(builder, actions, arguments[0]), bounds, strict=True)
            for kind, value, limits in leaves:
                own = context.make_array(kind)(context, builder, value)
                compare = builder.icmp_signed if limits is None or kind.dtype.signed else builder.icmp_unsigned
                for place in np.ndindex(limits[0].shape) if limits is not None else ():
                    pointer = cgutils.get_item_pointer(context, builder, kind, own, [arguments[1], *map(_WORD, place)])
                    element = load_item(context, builder, kind, pointer)
                    for sign, limit in zip("<>", cast("Any", limits), strict=True):
                        if np.isfinite(limit[place]):
                            result = builder.or_(result, compare(sign, element, element.type(int(limit[place]))))
            return result

        return BOOL(actions, INT), build

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
def keep_stream(table: Any, bits: Any, lane: Any, which: Any) -> None:
    """Saves the state of a lane's generator, see `envoi.seeding.addresses`, unless its kind is unusual."""
    numbers, half = bits[lane, 8 + which], bits[lane, 4 * which] + 8
    if numbers != 0:
        progress, words = array_at(table[PROGRESS], (3,), _INTEGERS), array_at(numbers, (4,), _INTEGERS)
        saved = array_at(table[SAVED] + 56 * progress[2], (7,), _INTEGERS)
        saved[0], saved[1], saved[6] = numbers, half, array_at(half, (1,), _INTEGERS)[0]
        for k in range(4):
            saved[2 + k] = words[k]
        progress[2] += 1


class _Separate(Compiler):
    """numba's compiler for functions whose arrays do not overlap."""

    def define_pipelines(self) -> list[Any]:
        self.state.flags.noalias = True
        return super().define_pipelines()


PROGRESS, SAVED, COLUMNS = 6, 7, 8
"""Places in the table of a kernel, see `Runner`."""

_Columns = namedtuple(
    "_Columns",
    "hold, terminated, truncated, ended, settings, bits, over, place, elapsed, next_over, next_place, next_elapsed",
)


def make_kernel(
    transition: Any,
    observe: Any,
    reward: Any,
    terminal: Any,
    truncated: Any,  # None if not defined, like `discount`; `initial` is None if Python calls it
    discount: Any,
    initial: Any,
    states: Leaves,
    actions_shapes: Sequence[tuple[int, ...]],
    seen_shapes: Sequence[tuple[int, ...]],
    bounds: Any,
    settings_kind: Any,
    contexts_kind: Any,
    moves_at_random: bool,
    begins_at_random: bool,
    seen_at_random: bool,
    is_straight: bool,
) -> Callable[..., int]:
    """Returns the kernel of a model, in which its functions and layout are constants; see `Runner`.

    The kernel returns the number of lanes that ended; -1 if one acts that must not, or by an action out of bounds.
    """
    flags, number, bits = (False,) * 4, np.zeros((), settings_kind), np.zeros(12, np.int64)
    example = _Columns._make((*flags, number, bits, *(False, 0, 0) * 2))
    columns_at, states_at, outside = tree_at(example), tree_at(states.example), bounds_check(bounds)
    actions_of, seen_of, leaves = shaped(actions_shapes), shaped(seen_shapes), len(states.shapes)

    @njit(forceinline=True, **INSIDE)
    def act(given: Any, i: Any) -> Any:
        """Returns the values of a lane that acts, see `keep`."""
        table, columns, before, actions, last = given
        own, bits, state, action = columns.settings[i], columns.bits, view_of(before, i), view_of(actions, i)
        if moves_at_random:
            keep_stream(table, bits, i, 0)
        if seen_at_random:
            keep_stream(table, bits, i, 1)
        dynamics = Stream(bits[i, 0], bits[i, 1], bits[i, 2], bits[i, 3])
        noise = Stream(bits[i, 4], bits[i, 5], bits[i, 6], bits[i, 7])
        new = transition(own, state, action, dynamics)
        value, seen, is_over = reward(own, state, action, new), observe(own, new, noise), bool(terminal(own, new))
        is_cut = columns.elapsed[i] >= last
        if truncated is not None:
            is_cut |= bool(truncated(own, new))
        return new, value, seen, is_over, is_cut, None if discount is None else discount(own, new)

    @njit(forceinline=True, **INSIDE)
    def keep(kept: Any, i: Any, values: Any) -> bool:
        """Stores the values of a lane that acts; returns True if its episode ends."""
        columns, after, observations, rewards, discounts = kept
        new, value, seen, is_over, is_cut, factor = values
        store(after, i, new)
        store(rewards, i, value)
        store(observations, i, seen)
        if discount is not None:
            store(discounts, i, factor)
        ends = is_over | is_cut
        columns.terminated[i], columns.truncated[i] = is_over, is_cut
        columns.ended[i] = columns.next_over[i] = ends
        columns.next_place[i], columns.next_elapsed[i] = columns.place[i], columns.elapsed[i] + 1
        return ends

    act_or_fail, keep_or_fail = _tried(act), _tried(keep)

    @njit(pipeline_class=_Separate, forceinline=True, **INSIDE)
    def act_together(given: Any, kept: Any, restart: Any, hold: Any) -> int:
        """Computes the steps of all lanes, as if all acted; returns the number that end, or -1 if one fails."""
        ended, failed = 0, False
        for i in range(len(hold)):
            fails, values = act_or_fail((given, i))
            fails_too, ends = keep_or_fail((kept, i, values))
            acts = not (restart[i] | hold[i])
            failed |= (fails | fails_too) & acts
            ended += ends & acts
        return -1 if failed else ended

    def kernel(
        table: Any, limit: Any, restart: Any, actions: Any, observations: Any, rewards: Any, discounts: Any
    ) -> int:
        n, first = table[0], table[5]  # `first` is the first place for lanes that begin; negative if each has its own
        contexts = array_at(table[1], (table[2],), contexts_kind)
        coming = array_at(table[3], (table[4],), _INTEGERS)
        progress = array_at(table[PROGRESS], (3,), _INTEGERS)
        columns = columns_at(table, COLUMNS, n)
        hold, over, bits = columns.hold, columns.over, columns.bits
        states = COLUMNS + len(columns)
        before, after = states_at(table, states, n), states_at(table, states + leaves, n)
        fresh = states_at(table, states + 2 * leaves, n)
        actions, observations = actions_of(actions), seen_of(observations)

        wrong, some_act = False, False
        for i in range(n):
            acts = not (restart[i] | hold[i])
            wrong |= (over[i] | outside(actions, i)) & acts
            some_act |= acts
        if wrong:
            return -1

        last, begun, ended = limit - 1 if limit > 0 else 2**62, 0, -1
        progress[2] = 0
        given, kept = (table, columns, before, actions, last), (columns, after, observations, rewards, discounts)
        # LLVM vectorizes this if the functions of the model call nothing but `sin`, `cos` and `sqrt`.
        if is_straight and some_act and n >= 16:
            ended = act_together(given, kept, restart, hold)
        # If a lane has failed, they act one by one, because the error of the first one counts.
        have_acted, ended = ended >= 0, max(ended, 0)
        for i in range(n):
            if not (restart[i] | hold[i]):
                if not have_acted:
                    progress[0] = i
                    ended += keep(kept, i, act(given, i))
                continue
            progress[0] = i
            rewards[i] = 0
            if discount is not None:
                discounts[i] = 1
            columns.terminated[i] = columns.truncated[i] = columns.ended[i] = False
            if hold[i]:
                store(after, i, view_of(before, i))
                columns.next_over[i], columns.next_place[i] = over[i], columns.place[i]
                columns.next_elapsed[i] = columns.elapsed[i]
                continue
            row = coming[i] if first < 0 else coming[first + begun]
            if initial is None:
                store(after, i, view_of(fresh, begun))
            else:
                if begins_at_random:
                    keep_stream(table, bits, i, 0)
                dynamics = Stream(bits[i, 0], bits[i, 1], bits[i, 2], bits[i, 3])
                store(after, i, initial(columns.settings[i], dynamics, contexts[row]))
            columns.next_over[i], columns.next_place[i], columns.next_elapsed[i] = False, row, 0
            begun += 1
            if seen_at_random:
                keep_stream(table, bits, i, 1)
            noise = Stream(bits[i, 4], bits[i, 5], bits[i, 6], bits[i, 7])
            store(observations, i, observe(columns.settings[i], view_of(after, i), noise))
        progress[0], progress[1] = n - 1, begun
        return ended

    return kernel
