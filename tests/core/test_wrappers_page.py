"""The page on wrappers: its code runs, and its table has every wrapper."""

import inspect
import re
from pathlib import Path

import envoi

PAGE = (Path(__file__).parents[2] / "docs" / "writing_a_wrapper.md").read_text()


def test_the_code_of_the_page_runs():
    names = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "writing_a_wrapper.md", "exec"), names)
    assert names["one"] == [0.9, 1, 0.9]
    assert names["three"] == [1, 0.9, 0.9]
    assert list(names["many"]) == list(names["agents"].possible_agents)


def test_the_table_has_every_wrapper():
    named = re.findall(r"^\| `(\w+)` \| ", PAGE, re.MULTILINE)
    kinds = [getattr(envoi, name) for name in envoi.__all__]
    lifted = [kind.__name__ for kind in kinds if inspect.isclass(kind) and issubclass(kind, envoi.Lifted)]
    assert named == sorted({*lifted} - {"Lifted"})
