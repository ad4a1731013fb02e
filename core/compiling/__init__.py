"""Compiles the functions of a model, as its author wrote them, to one loop over lanes.

A batch steps n lanes by n calls of a scalar `Model`, or by some twenty numpy calls of a `BatchModel`. Here both become
one kernel, text that numba compiles:

    kernel(states, next states, restart, hold, …, actions, observations, rewards)

    for each lane:   act, or begin an episode, or pause   →   observe   →   find the ends

How a model becomes lines of that text differs, and all else is shared:

    BatchModel   tracing        its functions run once on symbolic lanes, and leave expressions of one lane's scalars
                 vectorised     loops over blocks of lanes, which LLVM turns into packed instructions
    Model        rewriting      its functions are compiled themselves, after small changes such as `self.x` to a field
                 scalar         one loop, for these functions may branch, and generate a lane's random numbers

    layout                    states of n lanes as rows of their scalars, contexts as records
    random_streams            a scalar model's lanes have their own generators, whose states the kernel advances
    plan, compilation         the kernel's text and arguments, its digest, and the machine code on disk
    runner                    a kernel with its rows; checks actions before any lane acts
    choice                    when a batch compiles; compares a kernel with the interpreted functions before use

**The same bits.** Fast math is off. Of numpy's functions only those are compiled to C's that give equal bits, found by
a probe on the machine; the others are called by the address of numpy's own loop, and `**` by that of C's `pow`. Random
numbers come from the same generators in the same order.

Only modules of functions that numba compiles into kernels import it, when something is compiled.
"""
