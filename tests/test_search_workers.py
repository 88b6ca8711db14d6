"""A freeze-thaw search whose workers are processes: one is killed, and another goes on from the checkpoint."""

from __future__ import annotations

import os
import signal
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path

import pytest

from epochcast.search import FreezeThaw, Step
from tests import checkpointed_training as training
from tests.softmax_regression import accuracies
from tests.test_search import HORIZON, Blind, search_of


def work(pipe: Connection, folder: Path) -> None:
    """Train what is asked for, run by run."""
    log = training.Log(folder / "log")
    while True:
        step: Step = pipe.recv()
        here = folder / str(step.run)
        for epoch, value, weights in training.train(step.config["rate"], step.until, here):
            log.add(str(step.run), epoch)
            if epoch == 3 and training.once(folder / "killed"):
                os.kill(os.getpid(), signal.SIGKILL)
            training.save(here, epoch, weights)
            pipe.send((epoch, value))
        pipe.send(None)


class Team:
    """Processes that work side by side on one search."""

    def __init__(self, search: FreezeThaw, folder: Path) -> None:
        self.search, self.folder = search, folder
        self.processes = {}
        self.busy: dict[Connection, int] = {}
        self.gone = 0

    def employ(self) -> None:
        """One more worker, with something to do."""
        context = get_context("spawn")
        pipe, other = context.Pipe()
        process = context.Process(target=work, args=(other, self.folder), daemon=True)
        process.start()
        other.close()
        self.processes[pipe] = process
        self.ask(pipe)

    def ask(self, pipe: Connection) -> None:
        step = self.search.ask()
        if step is None:
            self.busy.pop(pipe, None)
        else:
            self.busy[pipe] = step.run
            pipe.send(step)

    def hear(self, pipe: Connection) -> None:
        """Take in what a worker says, or that it is gone."""
        try:
            told = pipe.recv()
        except (EOFError, ConnectionResetError):
            self.search.release(self.busy.pop(pipe))
            self.processes.pop(pipe).join()
            self.gone += 1
            self.employ()
            return
        if told is None:
            self.ask(pipe)
        else:
            self.search.tell(self.busy[pipe], *told)

    def dismiss(self) -> None:
        for pipe, process in self.processes.items():
            process.kill()
            process.join()
            process.close()
            pipe.close()


def test_search_goes_on_when_a_worker_is_killed_and_only_an_unfinished_epoch_is_trained_twice(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")  # for the digits
    runs = [{"rate": rate} for rate in (1.0, 0.1, 0.01)]
    search = search_of(Blind(), runs, first=3, every=5)
    team = Team(search, tmp_path)
    for _ in range(2):
        team.employ()
    while team.busy:
        for pipe in wait(list(team.busy)):
            team.hear(pipe)
    team.dismiss()
    assert team.gone == 1
    assert [epoch for (_, epoch), times in training.Log(tmp_path / "log").epochs().items() if times > 1] == [3]
    for run in search.runs:
        assert run.values == list(accuracies(run.config["rate"], HORIZON))
