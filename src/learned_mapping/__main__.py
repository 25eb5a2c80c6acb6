"""`python -m learned_mapping` is `lmap`."""

import sys

from learned_mapping.cli import main

if __name__ == "__main__":
    sys.exit(main())
