"""Compiles the functions of a scalar `Model`, as its author wrote them, to one loop over lanes.

A batch steps n lanes by n calls of a scalar `Model`. Here they become one kernel, text that numba compiles:

    kernel(states, next states, restart, hold, …, actions, observations, rewards)

    for each lane:   act, or begin an episode, or pause   →   observe   →   find the ends

A `BatchModel` steps in numpy, and is not compiled.

    functions                 the model's functions, and all that their code depends on
    python_semantics          the visitor of numba's statements: what `self.x`, `x + 1`, `math.sin` are in a kernel
    exact_numbers             the table of Python's operators and functions of numbers, with Python's values or an error
    scalar                    the kernel's text: one loop, for these functions may branch, and take random numbers
    layout                    states of n lanes as rows of their scalars, contexts as records
    random_functions          the methods of a lane's own generator, whose state the kernel advances
    kernel_functions          how a kernel finds its arrays and stores what it computes
    plan, compilation         the kernel's arguments, its digest, and the machine code on disk
    runner                    a kernel with its rows; checks actions before any lane acts
    choice                    when a batch compiles; compares a kernel with the interpreted functions before use

**The same bits.** Numbers are int64, float64 and bool. Fast math is off. Of the functions of `math` and numpy only
those are compiled that give equal bits, with Python's errors, and `**` calls C's `pow`. Random numbers come from the
same generators in the same order.

Only modules of functions that numba compiles into kernels import it, when something is compiled.
"""
