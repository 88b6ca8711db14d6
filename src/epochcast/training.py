"""A training run with its progress bar, its checkpoints and its export: what `epochcast train` does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from epochcast.errors import ConfigError
from epochcast.export import export
from epochcast.train import RECIPES, TrainConfig, Trainer, join_processes, with_changes

_EVALUATE_EVERY = 120.0  # seconds


class TrainingRun:
    """One call of `epochcast train`."""

    def __init__(
        self,
        recipe: str,
        changes: dict[str, Any],
        checkpoint: Path | None,
        save_every: float,
        threads: int | None,
        start: Path | None = None,
    ) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self.rank = join_processes()
        self.checkpoint = checkpoint
        self.save_every = save_every
        self.console = Console(stderr=True, quiet=self.rank != 0)
        if checkpoint is not None and checkpoint.is_file():
            self.trainer = Trainer.resume(checkpoint)
            self.console.print(f"going on from step {self.trainer.step} of {self.trainer.config.steps} in {checkpoint}")
        else:
            self.trainer = Trainer(with_changes(_recipe(recipe), **changes))
            if start is not None:
                self.trainer.start_from(start)
        self._saved = self._evaluated = time.monotonic()
        self._scores = "log-likelihood at 10/20/40/80 %: not yet known"

    def finish(self, out: Path, name: str) -> None:
        """Train to the end, then write the model; every process trains, the first one writes."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[scores]}"),
        )
        with Progress(*columns, console=self.console) as progress:
            total = self.trainer.config.steps
            task = progress.add_task("training", total=total, completed=self.trainer.step, scores=self._scores)

            def report(trainer: Trainer) -> None:
                if self.rank == 0:
                    self._look_after(trainer)
                    description = f"step {trainer.step}, loss {trainer.loss:.3f}"
                    progress.update(task, completed=trainer.step, description=description, scores=self._scores)

            self.trainer.run(report=report)
        if self.rank == 0:
            self._save()
            weights, graph = export(self.trainer, out, name)
            reached = _shown(self.trainer.evaluate(1_000))
            self.console.print(f"log-likelihood at 10/20/40/80 %: {reached}\nwrote {weights} and {graph}")

    def _look_after(self, trainer: Trainer) -> None:
        now = time.monotonic()
        if now - self._saved > self.save_every:
            self._save()
            self._saved = now
        if now - self._evaluated > _EVALUATE_EVERY:
            self._scores = _shown(trainer.evaluate(200))
            self._evaluated = time.monotonic()

    def _save(self) -> None:
        if self.checkpoint is not None:
            self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
            self.trainer.save(self.checkpoint)


def _recipe(recipe: str) -> TrainConfig:
    if recipe in RECIPES:
        return RECIPES[recipe]
    if recipe.endswith(".json") and Path(recipe).is_file():
        try:
            return TrainConfig.from_json(Path(recipe).read_text(encoding="utf-8"))
        except (UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"{recipe} cannot be read as JSON: {error}") from None
    raise ConfigError(f"recipe {recipe!r} is unknown; choose {', '.join(RECIPES)}, or give a JSON file")


def _shown(scores: list[float]) -> str:
    return " / ".join(f"{score:.3f}" for score in scores)
