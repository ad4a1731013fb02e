"""Makes the pictures of results on the pages, by the code of the pages themselves.

python docs/page_pictures.py generalisation.md
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parent.resolve()


def run(page: str) -> list[Path]:
    """Runs the Python of a page in an empty folder, and returns the pictures that it has written."""
    module = sys.modules["the_page"] = ModuleType("the_page")
    for code in re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(code, page, "exec"), vars(module))  # noqa: S102 (the code of our pages)
    return sorted(Path.cwd().rglob("*.png"))


if __name__ == "__main__":
    from PIL import Image

    for page in sys.argv[1:]:
        os.chdir(tempfile.mkdtemp())
        for picture in run(page):
            target = DOCS / "pictures" / picture.name
            Image.open(picture).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(target, optimize=True)
            print(f"{page}: {target.name}, {target.stat().st_size:,} bytes")
