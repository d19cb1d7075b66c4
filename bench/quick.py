"""Every benchmark, small, one run each: `make bench-quick`.

A look and no measurement; docs/benchmarks.md has the medians.
"""

import argparse
import subprocess
import sys
import time

from bench.lib.compared import say

BENCHES = (
    ("bench.throughput", "--runs", "1", "--share", "0.2"),
    ("bench.measurements.window", "--batches", "60"),
    ("bench.measurements.backlog", "--receipts", "200000"),
    ("bench.freshness", "--seconds", "15"),
    ("bench.judging", "--rules", "100", "--stores", "40"),
)


def main() -> int:
    """Return 0 when every benchmark succeeded: every row compared, every probe served."""
    argparse.ArgumentParser(prog="quick", description=__doc__).parse_args()
    failed, began = [], time.monotonic()
    for number, (module, *options) in enumerate(BENCHES, 1):
        say(f"\n── {number} of {len(BENCHES)}: python -m {module} {' '.join(options)}")
        since = time.monotonic()
        if subprocess.run([sys.executable, "-m", module, *options], check=False).returncode:
            failed.append(module)
        say(f"── {time.monotonic() - since:.0f} s")
    outcome = f"failed: {', '.join(failed)}" if failed else "all rows compared, none differs"
    say(f"\n{time.monotonic() - began:.0f} s in all; {outcome}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
