"""Development runs in two halves: what belongs together stays together, and the split never changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epochcast.benchmarks import CurveSet
from epochcast.errors import InputError
from epochcast.metric import Metric
from tests.checkout import research

halves = research("halves")
groups, in_choosing_half, load_half = halves.groups, halves.in_choosing_half, halves.load_half

DATA = Path(__file__).parents[1].parent / "shared" / "data" / "kinds"
BRANCH = "ann0.2_slimpajama_llama_norm_nlayers12_nhead12_lr0.001_sched_wsd_warmup300_decay_{}_iter{}_seed0"


def runs(tasks: int, each: int) -> CurveSet:
    task = np.repeat(np.arange(tasks), each)
    names = [f"task {number}" for number in range(tasks)]
    return CurveSet.of("made", np.ones((len(task), 3)), Metric.named("loss"), task=task, task_names=names)


def test_runs_of_one_task_stay_together_where_there_are_many_tasks() -> None:
    curves = runs(tasks=40, each=3)
    chosen = in_choosing_half(groups(curves, [str(row) for row in range(len(curves))]))
    by_task = chosen.reshape(40, 3)
    assert (by_task == by_task[:, :1]).all()
    assert 10 <= by_task[:, 0].sum() <= 30


def test_runs_of_few_tasks_are_split_one_by_one() -> None:
    curves = runs(tasks=2, each=100)
    chosen = in_choosing_half(groups(curves, [f"run {row}" for row in range(200)]))
    assert 30 <= chosen[:100].sum() <= 70
    assert 30 <= chosen[100:].sum() <= 70


def test_branches_of_one_parent_stay_together_whatever_their_decay() -> None:
    names = [BRANCH.format(decay, length) for decay in ("linear", "sqrt") for length in (15_000, 50_000)]
    other = names[0].replace("lr0.001", "lr0.0005")
    found = groups(runs(tasks=1, each=5), [f"joined {names[0]}", *names[1:], other])
    assert len(set(found[:4])) == 1
    assert found[4] != found[0]


def test_few_groups_are_split_evenly() -> None:
    assert in_choosing_half(["a", "b", "c", "d"]).sum() == 2


def test_half_of_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="choose or report"):
        load_half(tmp_path, "both")


@pytest.mark.skipif(not DATA.is_dir(), reason="the development curves are not here")
def test_halves_of_a_collection_share_no_run_and_leave_none_out() -> None:
    (chosen,), (reported,) = (load_half(DATA / "lm_lr_scheduling_val.npz", half) for half in ("choose", "report"))
    assert (len(chosen), len(reported)) == (74, 156)  # as split before training; a change of the split would show
