"""The kernel: one loop over lanes, which act, begin an episode, or pause. Importing this module needs numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .kernel_functions import array_at, keep_stream, store, view_of
from .layout import Stream

BOOL, INT = np.dtype(bool), np.dtype(np.int64)


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
        hold = array_at(table[1], (n,), BOOL)
        ends = array_at(table[2], (3, n), BOOL)
        progress = array_at(table[3], (2,), INT)
        saved = array_at(table[4], (n, 12), INT)
        settings = array_at(table[5], (n,), settings_kind)
        bits = array_at(table[6], (n, 12), INT)
        contexts = array_at(table[7], (table[8],), contexts_kind)
        coming = array_at(table[9], (table[10],), INT)
        first = table[11]  # the first place for lanes that begin, in order; negative if there is one per lane
        over, over_after = array_at(table[12], (n,), BOOL), array_at(table[15], (n,), BOOL)
        place, place_after = array_at(table[13], (n,), INT), array_at(table[16], (n,), INT)
        elapsed, elapsed_after = array_at(table[14], (n,), INT), array_at(table[17], (n,), INT)
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
