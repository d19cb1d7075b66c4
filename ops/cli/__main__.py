"""`python -m ops.cli` is `tally`."""

import sys

from ops.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
