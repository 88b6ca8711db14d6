"""Make the stored reference: scores of the exact posterior on prior curves (research/exact_reference.json).

    python research/make_exact_reference.py --cache CACHE --curves 300 --jobs 2

About ten processor seconds per curve. It can be stopped at any time and started again with the same cache, which is
the one of `epochcast evaluate prior`; `--cached` writes what the cache holds without computing more.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from exact_reference import FILE, Reference

from epochcast.experiments.contenders import contenders
from epochcast.experiments.harness import Harness, Store, Workers
from epochcast.experiments.prior.comparison import Plan, compare
from epochcast.runtime.weights import write_atomically


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="folder of finished results")
    parser.add_argument("--curves", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cached", action="store_true", help="compute nothing: write what the cache holds")
    parser.add_argument("--out", type=Path, default=FILE)
    arguments = parser.parse_args()
    plan = Plan(contenders(["exact"]), curves=arguments.curves, sampled=arguments.curves)
    store = Store(arguments.cache / "prior.jsonl")
    comparison = compare(plan, Harness(store, Workers(arguments.jobs), show_progress, arguments.cached))
    reference = Reference.of(comparison)
    write_atomically(arguments.out, reference.to_json().encode())
    sys.stderr.write(f"\nwrote {reference.curves} curves to {arguments.out}\n")


def show_progress(done: int, total: int) -> None:
    sys.stderr.write(f"\r{done} of {total}")


if __name__ == "__main__":
    main()
