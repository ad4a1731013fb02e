"""Runs the command line as `python -m envoi.integrations.cli`."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
