"""Compiles the functions of a scalar `Model`, as its author wrote them, to one loop over lanes.

A batch steps n lanes by n calls of a scalar `Model`. Here they become one kernel, which numba compiles:

    kernel(table, limit, restart, actions, observations, rewards, discounts)

    for each lane:   act, or begin an episode, or pause   →   observe   →   find the ends

A `BatchModel` steps in numpy, and is not compiled.

    functions                 the model's functions, and all that their code depends on
    python_semantics          the visitor of numba's statements: what `self.x`, `x + 1`, `math.sin` are in a kernel
    exact_numbers             the table of Python's operators and functions of numbers, with Python's values or an error
    kernel                    the loops over lanes; LLVM vectorizes one, of functions without loops and random numbers;
                              how it finds the trees of a lane, and stores what it computes
    random_functions          the methods of a lane's own generator, whose state the kernel advances
    layout, plan              the trees of n lanes as arrays, contexts as records; what a kernel is made from
    compilation               the machine code on disk
    runner                    a kernel with its arrays; checks actions before any lane acts
    choice                    when a batch compiles; compares a kernel with the interpreted functions before use

**The same bits.** Numbers are int64, float64 and bool. Fast math is off. Functions of `math` and numpy are only
compiled if they give equal bits and raise Python's errors, and `**` calls C's `pow`. Random numbers come from the
same generators in the same order.

Only modules whose docstring mentions it import numba, when something is compiled.
"""
