"""The kernel, one loop over lanes that act, begin an episode or pause, and the functions that numba compiles into it.

Importing this module needs numba.

A tree of arrays is one array, a tuple or a named tuple of arrays, whose first axis is the lanes. In a kernel, an array
is an address, of type `Rows`: numba's own arrays have seven fields each, which takes five times as long to compile.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from llvmlite import ir
from numba import extending, from_dtype, njit, types
from numba.core import cgutils
from numba.core.compiler import Compiler
from numba.core.datamodel.models import PrimitiveModel
from numba.np.arrayobj import load_item, populate_array

from .exact_numbers import BOOL, FLOAT, INT, WIDE, is_scalar, refuse, shown
from .layout import INSIDE, Stream

if TYPE_CHECKING:
    from .plan import Plan

_WORD = ir.IntType(64)
intrinsic: Any = extending.intrinsic  # whose functions have one parameter more than their calls


class Rows(types.Type):
    """The type of an array of lanes: the address of its elements, whose dtype and shape (of one lane) are constants."""

    def __init__(self, dtype: Any, shape: tuple[int, ...]) -> None:
        self.dtype, self.shape = dtype, shape
        super().__init__(f"rows of {dtype} {shape}")

    def find(self, builder: Any, rows: Any, lane: Any, place: Sequence[Any] = ()) -> Any:
        """Returns the address of an element of a lane; of the first without a place."""
        index = lane
        for size, number in zip(self.shape, place or [_WORD(0)] * len(self.shape), strict=True):
            index = builder.add(builder.mul(index, _WORD(size)), number)
        return cgutils.gep_inbounds(builder, rows, index)

    def read(self, context: Any, builder: Any, rows: Any, lane: Any) -> Any:
        """Returns a lane's number or record, or an array that shares the memory of the lane."""
        pointer = self.find(builder, rows, lane)
        if not self.shape:
            return context.unpack_value(builder, self.dtype, pointer)
        result = context.make_array(self.of_lane)(context, builder)
        size = context.get_abi_sizeof(pointer.type.pointee)
        strides = [_WORD(size * int(np.prod(self.shape[k:], dtype=int))) for k in range(1, 1 + len(self.shape))]
        populate_array(result, pointer, [*map(_WORD, self.shape)], strides, _WORD(size), meminfo=None)
        return result._getvalue()

    @property
    def of_lane(self) -> Any:
        """The type of a lane's number, record or array."""
        return types.Array(self.dtype, len(self.shape), "C") if self.shape else self.dtype


@extending.register_model(Rows)
class _RowsModel(PrimitiveModel):
    def __init__(self, manager: Any, kind: Rows) -> None:
        super().__init__(manager, kind, manager.lookup(kind.dtype).get_data_type().as_pointer())


def _parts(tree: Any) -> list[Any]:
    return list(getattr(tree, "types", [tree]))


def _values(builder: Any, tree: Any, value: Any) -> list[Any]:
    return cgutils.unpack_tuple(builder, value) if isinstance(tree, types.BaseTuple) else [value]


def _rows_like(example: Any) -> Any:
    """Returns the type of the rows of a tree, which may contain trees, like one lane's example."""
    if isinstance(example, tuple):
        return types.BaseTuple.from_types([*map(_rows_like, cast("tuple[Any, ...]", example))], type(example))
    part = np.asarray(example)
    return Rows(from_dtype(part.dtype), part.shape)


def rows_of(example: Any) -> Any:
    """Returns a function that finds the rows of a tree, which may contain trees, like one lane's example.

    It takes an array, a tuple of arrays, or the rows of a table, with addresses from the third place on.
    """
    tree = _rows_like(example)

    @intrinsic
    def rows_in(typing: Any, source: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pairs = zip(_parts(source), _values(builder, source, arguments[0]), strict=True)
            if isinstance(source, Rows):
                found = (source.read(context, builder, arguments[0], _WORD(place)) for place in count(2))
            else:
                found = (context.make_array(kind)(context, builder, value).data for kind, value in pairs)

            def find(kind: Any) -> Any:
                if isinstance(kind, types.BaseTuple):
                    return context.make_tuple(builder, kind, [find(part) for part in _parts(kind)])
                one, pointer = next(found), context.get_value_type(kind)
                return builder.inttoptr(one, pointer) if one.type == _WORD else one

            return find(tree)

        return tree(source), build

    return rows_in


@intrinsic
def read(typing: Any, tree: Any, lane: Any) -> Any:
    """Reads one lane of a tree; its arrays share the memory of the lanes."""
    kinds, is_tuple = [rows.of_lane for rows in _parts(tree)], isinstance(tree, types.BaseTuple)
    result: Any = types.BaseTuple.from_types(kinds, getattr(tree, "instance_class", None)) if is_tuple else kinds[0]

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pairs = zip(_parts(tree), _values(builder, tree, arguments[0]), strict=True)
        found = [rows.read(context, builder, value, arguments[1]) for rows, value in pairs]
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
                compare = builder.icmp_signed if limits is None or kind.dtype.signed else builder.icmp_unsigned
                for place in np.ndindex(limits[0].shape) if limits is not None else ():
                    element = builder.load(kind.find(builder, value, arguments[1], [*map(_WORD, place)]))
                    for sign, limit in zip("<>", cast("Any", limits), strict=True):
                        if np.isfinite(limit[place]):
                            result = builder.or_(result, compare(sign, element, element.type(int(limit[place]))))
            return result

        return BOOL(actions, INT), build

    return outside


_OTHER_SHAPE = "observe: it returns another shape than observation_spec has; or a state has another than the first"


def _check_stored(rows: Any, value: Any) -> list[Any]:
    """Checks that a value fits an array of lanes, and returns the types of its numbers."""
    is_tuple = isinstance(value, types.BaseTuple)
    kinds = [types.unliteral(kind) for kind in getattr(value, "types", [getattr(value, "dtype", value)])]
    axes = 1 if is_tuple else getattr(value, "ndim", 0)
    if not all(map(is_scalar, kinds)) or len(rows.shape) != axes or (is_tuple and rows.shape != (len(kinds),)):
        raise refuse(f"observe: it returns {shown(value)}, of another shape than observation_spec has")
    is_real = isinstance(rows.dtype, types.Float)
    for kind in kinds:
        if not is_real and kind not in (rows.dtype, BOOL, *([INT] * isinstance(rows.dtype, types.Integer))):
            raise refuse(f"observe: it returns {shown(kind)} where the spec has {shown(rows.dtype)}; convert it")
    return kinds


@intrinsic
def store(typing: Any, tree: Any, lane: Any, value: Any) -> Any:
    """Stores a lane's value in a tree: numbers, arrays, or tuples with the elements of an array."""
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
    def put(number: Any, kind: Any, to: Any, *place: Any) -> None:
        wide = FLOAT if isinstance(rows.dtype, types.Float) and to in WIDE else to
        for source, target in pairwise((kind, to, wide, rows.dtype)):
            number = context.cast(builder, number, source, target)
        context.pack_value(builder, rows.dtype, number, rows.find(builder, array, lane, place))

    if isinstance(value, types.Array):
        inner = context.make_array(value)(context, builder, given)
        sizes = [*map(_WORD, rows.shape)]
        for size, length in zip(sizes, cgutils.unpack_tuple(builder, inner.shape), strict=True):
            with builder.if_then(builder.icmp_signed("!=", size, length), likely=False):
                context.call_conv.return_user_exc(builder, ValueError, (_OTHER_SHAPE,))
        if value.layout == "C" and value.dtype == rows.dtype:
            to, n = rows.find(builder, array, lane), int(np.prod(rows.shape, dtype=int))
            cgutils.raw_memcpy(builder, to, inner.data, _WORD(n), context.get_abi_sizeof(to.type.pointee))
            return
        with cgutils.loop_nest(builder, sizes, _WORD) as place:
            number = cgutils.get_item_pointer(context, builder, value, inner, place)
            put(load_item(context, builder, value, number), kinds[0], kinds[0], *place)
    elif isinstance(value, types.BaseTuple):
        for k, (kind, to) in enumerate(zip(_parts(value), kinds, strict=True)):
            put(builder.extract_value(given, k), kind, to, _WORD(k))
    else:
        put(given, value, kinds[0])


@intrinsic
def keep_stream(typing: Any, progress: Any, saved: Any, stream: Any) -> Any:
    """Saves the state of a lane's generator, see `envoi.seeding.addresses`, unless its kind is unusual."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        state, *_, numbers = cgutils.unpack_tuple(builder, arguments[2])
        with builder.if_then(builder.icmp_signed("!=", numbers, _WORD(0))):
            count_at, half = progress.find(builder, arguments[0], _WORD(2)), builder.add(state, _WORD(8))
            number, words = builder.load(count_at), builder.inttoptr(numbers, _WORD.as_pointer())
            kept = [builder.load(cgutils.gep(builder, words, k)) for k in range(4)]
            kept = [numbers, half, *kept, builder.load(builder.inttoptr(half, _WORD.as_pointer()))]
            for k, word in enumerate(kept):
                builder.store(word, saved.find(builder, arguments[1], number, [_WORD(k)]))
            builder.store(builder.add(number, _WORD(1)), count_at)
        return context.get_dummy_value()

    return types.none(progress, saved, stream), build


class _Separate(Compiler):
    """numba's compiler for functions whose arrays do not overlap."""

    def define_pipelines(self) -> list[Any]:
        self.state.flags.noalias = True
        return super().define_pipelines()


_Lanes = namedtuple(
    "_Lanes",
    "contexts, coming, progress, saved, hold, ends, settings, was, will_be, streams, before, after, fresh",
)
"""The columns that a kernel finds in its table, see `Runner`: arrays of lanes, before and after the step."""

_Row = namedtuple("_Row", "over, place, elapsed")


def make_kernel(plan: Plan, made: Mapping[str, Any]) -> Callable[..., int]:
    """Returns the kernel of a model, in which its compiled functions and layout are constants; see `Runner`.

    The kernel returns the number of lanes that ended; -1 if one acts that must not, or by an action out of bounds.
    """
    transition, observe, reward, terminal = (made[name] for name in ("transition", "observe", "reward", "terminal"))
    truncated, discount, initial = (made.get(name) for name in ("truncated", "discount", "initial"))
    moves_at_random, begins_at_random = "transition" in plan.draws, "initial" in plan.draws
    seen_at_random = "observe" in plan.draws
    # Else nothing is gained, and a loop may never end for a lane whose episode has.
    is_straight = not (plan.functions.has_loops or plan.draws - {"initial"} or any(plan.states.shapes))
    number, flag = 0, False
    row, state = _Row(flag, number, number), plan.states.example
    lanes_of = rows_of(_Lanes(
        contexts=np.zeros((), plan.context.dtype), coming=number, progress=number, saved=np.zeros(7, np.int64),
        hold=flag, ends=(flag, flag, flag), settings=np.zeros((), plan.own.dtype), was=row, will_be=row,
        streams=(Stream(*[number] * 5),) * 2, before=state, after=state, fresh=state,
    ))  # fmt: skip
    numbers_of, flags_of = rows_of(number), rows_of(flag)
    outside = bounds_check([action.bounds for action in plan.actions])
    actions_of, seen_of, rewards_of, discounts_of = (rows_of(0 if one is None else one) for one in plan.examples())

    @njit(forceinline=True, **INSIDE)
    def act(lanes: Any, actions: Any, last: Any, i: Any) -> Any:
        """Returns the values of a lane that acts, see `keep`."""
        own, state, action = read(lanes.settings, i), read(lanes.before, i), read(actions, i)
        dynamics, noise = read(lanes.streams[0], i), read(lanes.streams[1], i)
        if moves_at_random:
            keep_stream(lanes.progress, lanes.saved, dynamics)
        if seen_at_random:
            keep_stream(lanes.progress, lanes.saved, noise)
        new = transition(own, state, action, dynamics)
        value, seen, is_over = reward(own, state, action, new), observe(own, new, noise), bool(terminal(own, new))
        is_cut = read(lanes.was.elapsed, i) >= last
        if truncated is not None:
            is_cut |= bool(truncated(own, new))
        return new, value, seen, is_over, is_cut, None if discount is None else discount(own, new)

    @njit(forceinline=True, **INSIDE)
    def keep(lanes: Any, observations: Any, rewards: Any, discounts: Any, i: Any, values: Any) -> bool:
        """Stores the values of a lane that acts; returns True if its episode ends."""
        new, value, seen, is_over, is_cut, factor = values
        store(lanes.after, i, new)
        store(rewards, i, value)
        store(observations, i, seen)
        if discount is not None:
            store(discounts, i, factor)
        ends, was = is_over | is_cut, read(lanes.was, i)
        store(lanes.ends, i, (is_over, is_cut, ends))
        store(lanes.will_be, i, (ends, was.place, was.elapsed + 1))
        return ends

    act_or_fail, keep_or_fail = _tried(act), _tried(keep)

    @njit(pipeline_class=_Separate, forceinline=True, **INSIDE)
    def act_together(
        lanes: Any, actions: Any, last: Any, restart: Any, observations: Any, rewards: Any, discounts: Any, n: Any
    ) -> tuple[bool, int]:
        """Computes the steps of all lanes, as if all acted; returns True and how many end, or False if one fails."""
        ended, failed = 0, False
        for i in range(n):
            fails, values = act_or_fail((lanes, actions, last, i))
            fails_too, ends = keep_or_fail((lanes, observations, rewards, discounts, i, values))
            acts = not (read(restart, i) | read(lanes.hold, i))
            failed |= (fails | fails_too) & acts
            ended += ends & acts
        return not failed, 0 if failed else ended

    def kernel(
        table: Any, limit: Any, restart: Any, actions: Any, observations: Any, rewards: Any, discounts: Any
    ) -> int:
        table, restart, actions = numbers_of(table), flags_of(restart), actions_of(actions)
        observations, rewards = seen_of(observations), rewards_of(rewards)
        if discount is not None:
            discounts = discounts_of(discounts)
        n, first = read(table, 0), read(table, 1)  # the first place for lanes that begin; negative if each has its own
        lanes = lanes_of(table)

        wrong, some_act = False, False
        for i in range(n):
            acts = not (read(restart, i) | read(lanes.hold, i))
            wrong |= (read(lanes.was.over, i) | outside(actions, i)) & acts
            some_act |= acts
        if wrong:
            return -1

        last, begun, have_acted, ended = limit - 1 if limit > 0 else 2**62, 0, False, 0
        store(lanes.progress, 2, 0)
        # LLVM vectorizes this if the functions of the model call nothing but `sin`, `cos` and `sqrt`.
        if is_straight and some_act and n >= 16:
            have_acted, ended = act_together(lanes, actions, last, restart, observations, rewards, discounts, n)
        # If a lane has failed, they act one by one, because the error of the first one counts.
        for i in range(n):
            if not (read(restart, i) | read(lanes.hold, i)):
                if not have_acted:
                    store(lanes.progress, 0, i)
                    ended += keep(lanes, observations, rewards, discounts, i, act(lanes, actions, last, i))
                continue
            store(lanes.progress, 0, i)
            store(rewards, i, 0)
            if discount is not None:
                store(discounts, i, 1)
            store(lanes.ends, i, (False, False, False))
            if read(lanes.hold, i):
                store(lanes.after, i, read(lanes.before, i))
                store(lanes.will_be, i, read(lanes.was, i))
                continue
            place = read(lanes.coming, i if first < 0 else first + begun)
            own, dynamics, noise = read(lanes.settings, i), read(lanes.streams[0], i), read(lanes.streams[1], i)
            if initial is None:
                store(lanes.after, i, read(lanes.fresh, begun))
            else:
                if begins_at_random:
                    keep_stream(lanes.progress, lanes.saved, dynamics)
                store(lanes.after, i, initial(own, dynamics, read(lanes.contexts, place)))
            store(lanes.will_be, i, (False, place, 0))
            begun += 1
            if seen_at_random:
                keep_stream(lanes.progress, lanes.saved, noise)
            store(observations, i, observe(own, read(lanes.after, i), noise))
        store(lanes.progress, 0, n - 1)
        store(lanes.progress, 1, begun)
        return ended

    return kernel
