"""The sources of random scalar models, of Python's numbers.

Every value stays small (`fold`, `%`), so that episodes last; all else is as random as Python's grammar allows.
"""

HEAD = """
import math
from typing import NamedTuple

import numpy as np

import envoi

RATE = {rate}
STEPS = (1, 3, -2, 5)
WEIGHTS = np.array([0.5, -1.25, 2.0])


def fold(x):
    return x % 50.0 - 25.0


def helper(x, y, k=3):
    if x > y:
        return x - RATE * y
    return y * 0.5 + k


def gust(rng, scale):
    return rng.normal(0.0, scale) if scale > 0.5 else rng.random()


def tally(n, start=1):
    total = start
    for i in range(n % 6):
        if i == 4:
            break
        total += i * start
    else:
        total -= 1
    return total
"""


class Expressions:
    """Random expressions of numbers, from `names` by their type; if `noisy`, random numbers are among them."""

    def __init__(self, random, names, noisy=True):
        self.random, self.names, self.noisy = random, names, noisy

    def any(self, kind, depth):
        """Returns an expression of a type."""
        names = self.names[kind] or {"float": ["0.3"], "int": ["2"], "bool": ["True"]}[kind]
        if depth == 0 or self.random.random() < 0.15:
            return self.random.choice(names)
        makers = {"float": self._floats, "int": self._ints, "bool": self._bools}[kind]
        return self.random.choice(makers(max(depth - 1, 0)))()

    def _floats(self, d):
        number, whole, truth = (lambda: self.any("float", d)), (lambda: self.any("int", d)), lambda: self.any("bool", d)
        pick = self.random.choice
        makers = [
            lambda: f"({number()} {pick('+-*')} {number()})",
            lambda: f"({number()} {pick('+-*')} {whole()})",
            lambda: f"({number()} / (1.5 + abs({number()})))",
            lambda: f"({whole()} / (1 + abs({whole()})))",
            lambda: f"({number()} % {pick(['2.5', '-0.75', '3'])})",
            lambda: f"({number()} // {pick(['0.3', '-1.7', '2'])})",
            lambda: f"(-{number()})",
            lambda: f"abs({number()}) ** {pick(['0.5', '2', '1.3', '3'])}",
            lambda: f"fold({number()}) ** 2",
            lambda: f"{pick(['min', 'max'])}({number()}, {number()})",
            lambda: f"({number()} if {truth()} else {number()})",
            lambda: f"math.{pick(['sin', 'cos', 'tan', 'atan', 'tanh'])}({number()})",
            lambda: f"float(np.{pick(['floor', 'rint', 'sign'])}({number()}))",
            lambda: f"math.{pick(['exp', 'expm1', 'sinh'])}(math.sin({number()}))",
            lambda: f"float(np.sqrt(abs(fold({number()})) * 0.5))",
            lambda: f"math.{pick(['sqrt', 'log1p'])}(abs({number()}))",
            lambda: f"math.atan2({number()}, {number()})",
            lambda: f"math.copysign({number()}, {number()})",
            lambda: f"float({whole()})",
            lambda: f"helper({number()}, {number()})",
            lambda: f"helper({number()}, {number()}, k={whole()})",
            lambda: f"float(WEIGHTS[{whole()} % 3])",
            lambda: f"float(self.table[{whole()} % 4 - 2])",
            lambda: f"self.scaled({number()})",
            lambda: pick(["self.gain", "RATE", "0.1", "-2.5", "math.pi", "1e-3"]),
            lambda: f"({number()} or {number()})",
        ]
        if self.noisy:
            makers += [
                lambda: "rng.random()", lambda: "rng.normal(0.0, 0.5)", lambda: "rng.uniform(-1.0, 2.0)",
                lambda: f"gust(rng, {pick(['0.3', '0.7'])})", lambda: "float(rng.standard_normal(2)[1])",
            ]  # fmt: skip
        return makers

    def _ints(self, d):
        number, whole, truth = (lambda: self.any("float", d)), (lambda: self.any("int", d)), lambda: self.any("bool", d)
        pick = self.random.choice
        makers = [
            lambda: f"({whole()} {pick('+-')} {whole()})",
            lambda: f"({whole()} % 11 * ({whole()} % 7))",
            lambda: f"({whole()} {pick(['%', '//'])} {pick(['3', '-4', '7'])})",
            lambda: f"(-{whole()})",
            lambda: f"({whole()} {pick('&|^')} {whole()})",
            lambda: f"({whole()} % 13 << {pick(['1', '3'])})",
            lambda: f"({whole()} >> {pick(['1', '2'])})",
            lambda: f"({whole()} % 5) ** {pick(['2', '3', '0'])}",
            lambda: f"int(fold({number()}))",
            lambda: f"round(fold({number()}))",
            lambda: f"math.{pick(['floor', 'ceil', 'trunc'])}(fold({number()}))",
            lambda: f"{pick(['min', 'max'])}({whole()}, {whole()})",
            lambda: f"({whole()} if {truth()} else {whole()})",
            lambda: f"int({truth()})",
            lambda: f"STEPS[{whole()} % 4]",
            lambda: f"tally({whole()})",
            lambda: f"abs({whole()})",
            lambda: pick(["2", "-3", "7", "self.count"]),
            lambda: f"({truth()} + {whole()})",
        ]
        return [*makers, *([lambda: "rng.integers(0, 6)", lambda: "rng.integers(9)"] if self.noisy else [])]

    def _bools(self, d):
        number, whole, truth = (lambda: self.any("float", d)), (lambda: self.any("int", d)), lambda: self.any("bool", d)
        pick = self.random.choice
        sign = lambda: pick(["<", "<=", ">", ">=", "==", "!="])  # noqa: E731
        return [
            lambda: f"({number()} {sign()} {number()})",
            lambda: f"({whole()} {sign()} {whole()})",
            lambda: f"({number()} {sign()} {whole()})",
            lambda: f"({number()} < {number()} <= {number()})",
            lambda: f"({truth()} {pick(['and', 'or'])} {truth()})",
            lambda: f"(not {truth()})",
            lambda: f"({whole()} in (1, 2, 5))",
            lambda: f"math.isfinite({number()})",
            lambda: pick(["True", "False"]),
        ]


def scalar_model(random):
    """Returns the source of a module with a scalar model `Made`."""
    pick = random.choice
    fields = [(f"x{k}", "float") for k in range(random.randint(1, 4))]
    fields += [(f"n{k}", "int") for k in range(random.randint(0, 3))] + [("b", "bool")] * random.randint(0, 1)
    grid = random.random() < 0.4
    shape = random.choice(["named", "plain"])
    at = {name: f"state.{name}" if shape == "named" else f"state[{k}]" for k, (name, _) in enumerate(fields)}

    def names(local):
        kinds = ("float", "int", "bool")
        return {kind: [local.get(name, at[name]) for name, its in fields if its == kind] for kind in kinds}

    def final(kind, expressions, depth=4):
        text = expressions.any(kind, depth)
        return {"float": f"float(fold({text}))", "int": f"int({text}) % 997", "bool": f"bool({text})"}[kind]

    noisy = random.random() < 0.6
    inside = names({})
    inside["int"] += ["int(action)"] * 2
    transition = Expressions(random, inside, noisy)
    lines = []
    for name, kind in fields:
        if random.random() < 0.3:
            lines += [f"        if {transition.any('bool', 2)}:", f"            {name} = {final(kind, transition)}"]
            lines += ["        else:", f"            {name} = {final(kind, transition, 2)}"]
        else:
            lines.append(f"        {name} = {final(kind, transition)}")
        inside[kind].append(name)
    if random.random() < 0.5:
        lines += [
            f"        for i in range({random.randint(1, 4)}):",
            f"            x0 += {transition.any('float', 1)} * i",
        ]
        lines += ["        x0 = float(fold(x0))"]
    made = [name for name, _ in fields]
    if grid:
        before = "state.grid" if shape == "named" else f"state[{len(fields)}]"
        lines += [f"        grid = {before}.copy()", f"        place = int({transition.any('int', 2)}) % 3 - 1"]
        lines += [
            "        grid[place] += 1",
            f"        grid[{pick(['-1', '0'])}] = int({transition.any('int', 2)}) % 9",
        ]
        made.append("grid")
    result = f"State({', '.join(made)})" if shape == "named" else f"({', '.join(made)},)"
    if shape == "named" and random.random() < 0.4:
        order = random.sample(made, len(made))
        result = f"state._replace({', '.join(f'{name}={name}' for name in order)})"
    watched = Expressions(random, names({}), noisy and random.random() < 0.5)
    quiet = Expressions(random, names({}), False)
    both = names({})
    both["float"] += [text.replace("state", "next_state") for text in both["float"]]
    both["int"] += ["int(action)"]
    reward = Expressions(random, both, False)
    width = random.randint(1, 5)
    observed = ", ".join(final("float", watched) for _ in range(width))
    dtype = random.choice(["float64", "float32"])
    if random.random() < 0.5:
        spec = f"envoi.Array(({width},), '{dtype}')"
        observe = f"np.array([{observed}]{random.choice(['', f', np.{dtype}'])})"
    else:
        spec = "{'a': envoi.Array((), 'float64'), 'b': envoi.Array((), 'int64')}"
        parts = [f"'a': {final('float', watched)}", f"'b': {final('int', watched)}"]
        random.shuffle(parts)
        observe = f"{{{', '.join(parts)}}}"
    first = {"float": "rng.uniform(-2.0, 2.0)", "int": "int(rng.integers(5))", "bool": "rng.random() < 0.5"}
    begun = [first[kind] if noisy or kind == "float" else {"int": "0", "bool": "False"}[kind] for _, kind in fields]
    begun[0] = f"{begun[0]} * context['wind']"
    begun += ["np.zeros(3, np.int64)"] if grid else []
    begun_state = f"State({', '.join(begun)})" if shape == "named" else f"({', '.join(begun)},)"
    declared = [f"    {name}: {kind}" for name, kind in fields] + (["    grid: object"] if grid else [])
    discount = f"\n    def discount(self, state):\n        return abs(math.sin({quiet.any('float', 2)}))\n"
    return "\n".join(
        [
            HEAD.format(rate=random.choice(["0.25", "-1.5", "3"])),
            "\nclass State(NamedTuple):",
            *declared,
            "\n\nclass Made(envoi.Model):",
            f"    observation_spec = {spec}",
            "    action_spec = envoi.Discrete(3, start=-1)",
            "    context_space = envoi.ContextSpace([envoi.UniformFloat('wind', 0.1, 2.0, default=1.0)])",
            "\n    def __init__(self, gain=0.75):",
            "        self.gain, self.count, self.table = gain, 4, np.array([0.5, 1.5, -2.0, 0.25])",
            "\n    def scaled(self, x):",
            "        return x * self.gain if x > 0 else x - self.table[1]",
            "\n    def initial(self, rng, context):",
            f"        return {begun_state}",
            "\n    def transition(self, state, action, rng):",
            *lines,
            f"        return {result}",
            "\n    def observe(self, state, rng):",
            f"        return {observe}",
            "\n    def reward(self, state, action, next_state):",
            f"        return float({reward.any('float', 4)})",
            "\n    def terminal(self, state):",
            f"        return math.sin({quiet.any('float', 3)}) > 0.9",
            "\n    def truncated(self, state):",
            f"        return bool({quiet.any('bool', 2)}) and {quiet.any('bool', 1)}",
            discount if random.random() < 0.5 else "",
        ]
    )


FUNCTIONS = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp",
             "expm1", "log", "log2", "log10", "log1p", "sqrt", "erf", "erfc", "floor", "ceil", "trunc",
             "fabs")  # fmt: skip
NUMBERS = ("x", "y", "n", "m", "p", "q") * 2 + (
    "0", "1", "2", "-1", "3", "7", "0.5", "2.0", "-1.5", "0.0", "-0.0", "1e308", "True", "False", "2**53 + 1", "2**62",
)  # fmt: skip


def expression(random, depth=3):
    """Returns any expression of the floats x and y, the ints n and m and the bools p and q; it may raise an error."""
    pick = random.choice

    def part():
        return expression(random, depth - 1)

    if depth == 0 or random.random() < 0.12:
        return f"({pick(NUMBERS)})"
    return pick(
        [lambda: f"({part()} {pick(['+', '-', '*', '/', '//', '%'])} {part()})"] * 9
        + [lambda: f"({part()} {pick(['<', '<=', '>', '>=', '==', '!='])} {part()})"] * 3
        + [lambda: f"({part()} {pick(['and', 'or'])} {part()})", lambda: f"({part()} if {part()} else {part()})"] * 2
        + [lambda: f"{pick(['min', 'max'])}({part()}, {part()})", lambda: f"(-{part()})"] * 2
        + [lambda: f"{pick(['abs', 'int', 'float', 'round', 'bool'])}({part()})"] * 3
        + [lambda: f"math.{pick(FUNCTIONS)}({part()})"] * 5
        + [
            lambda: f"({part()} ** {pick(['2', '3', '0.5', '-1', 'x', '(n % 5)', '(1 / 3)', '-2.5', 'p'])})",
            lambda: f"({part()} {pick('&|^')} {part()})",
            lambda: f"({part()} {pick(['<<', '>>'])} {pick(['1', '3', '(n % 70)', '-1'])})",
            lambda: f"(not {part()})",
            lambda: f"(~{part()})",
            lambda: f"min({part()}, {part()}, {part()})",
            lambda: f"math.{pick(['atan2', 'copysign', 'pow'])}({part()}, {part()})",
            lambda: f"({part()} < {part()} <= {part()})",
        ]
    )()


FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.7, 1e-300, 1e300, 1e16, 2.0**53, float("inf"), float("-inf"), float("nan"))
INTS = (0, 1, -1, 2, 3, -7, 63, 64, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63))


def operands(random):
    """Returns values of x, y, n, m, p and q."""
    floats = [random.choice(FLOATS) if random.random() < 0.5 else random.gauss(0, 3) for _ in "xy"]
    ints = [random.choice(INTS) if random.random() < 0.5 else random.randint(-9, 9) for _ in "nm"]
    return *floats, *ints, random.random() < 0.5, random.random() < 0.5
