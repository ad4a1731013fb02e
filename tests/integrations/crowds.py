"""PettingZoo's parallel envs for jobs of several agents."""


def spread():
    """Returns three agents that act at the same time, and are truncated together."""
    from mpe2 import simple_spread_v3

    return simple_spread_v3.parallel_env(N=3, max_cycles=20)
