#!/bin/sh
# Prints the first Python that Tally runs on: $PYTHON if it is given, else what is on PATH. Exit code 1 with one line and the fix if none is.
suitable='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))'
for candidate in ${PYTHON:-python3.11 python3.12 python3 python}; do
    if "$candidate" -c "$suitable" >/dev/null 2>&1; then
        command -v "$candidate"
        exit 0
    fi
done
found=$("${PYTHON:-python3}" --version 2>/dev/null | head -n 1)
echo "setup: Python 3.11 or 3.12 is needed, found: ${found:-none}; install it (Debian: apt install python3.11 python3.11-venv) or run: make setup PYTHON=/path/to/python3.12" >&2
exit 1
