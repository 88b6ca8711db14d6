"""`epochcast evaluate search` on one half of the development runs: choose by the one, report the other.

python research/replay_searches.py ../shared/data/lcbench.npz --half report --orders 20 --out searches
"""

from __future__ import annotations

import argparse
from pathlib import Path

from halves import load_half

from epochcast.console import progress, words
from epochcast.experiments.harness import Harness, Store, Workers
from epochcast.experiments.search.report import summary_table, write
from epochcast.experiments.search.study import Settings, run
from epochcast.experiments.task_runs import tasks_of, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("collections", type=Path, nargs="+")
    parser.add_argument("--half", choices=("choose", "report"), default="choose")
    parser.add_argument("--tasks", type=int, help="the first so many of each collection; all by default")
    parser.add_argument("--curves", type=int, help="runs per task, drawn at random; all by default")
    parser.add_argument("--searches", default="", help="names, separated by commas; all by default")
    parser.add_argument("--model", default="default")
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--budget", type=int, default=20, help="in full runs")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    settings = Settings(tuple(words(given.searches)), given.model, given.orders, given.budget)
    halves = [curves for path in given.collections for curves in load_half(path, given.half)]
    tasks = [
        runs
        for curves in halves
        for runs in tasks_of([curves], [task for task, _ in curves.tasks()][: given.tasks], given.curves)
    ]
    store = None if given.cache is None else Store(given.cache)
    with progress("replaying") as advance:
        results = run(tasks, settings, Harness(store, Workers(given.jobs), advance))
    print("\n".join(used(tasks)))
    print(summary_table(results))
    if given.out is not None:
        write(results, given.out)


if __name__ == "__main__":
    main()
