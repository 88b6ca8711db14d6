"""Transformers: a Trainer callback that stops runs which cannot win; `pip install 'epochcast[transformers]'`.

    trainer = Trainer(model, args, ..., callbacks=[ForecastStopping("eval_accuracy", best=0.91)])

The steps are evaluations. What the Trainer's learning-rate scheduler is going to do is told to the forecasts. A run
that goes on from a checkpoint finds its earlier evaluations in the checkpoint's `trainer_state.json`. With several
processes every one of them decides alone, and all decide the same: the Trainer gives them the same metrics.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from epochcast.checks import name_of
from epochcast.errors import MissingExtraError
from epochcast.integrations.base import MOST_RATES, StopperCallback, harmless

try:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ImportError as error:
    raise MissingExtraError("transformers", "transformers") from error

__all__ = ["ForecastStopping"]


class ForecastStopping(StopperCallback, TrainerCallback):
    """Watches the metric `monitor` ("eval_" may be left out) of each evaluation.

    Arguments and errors are those of `StopperCallback`.

    Examples:
        >>> from epochcast.integrations.transformers import ForecastStopping
        >>> stopping = ForecastStopping("accuracy", best=0.91)
        >>> trainer = Trainer(model, args, callbacks=[stopping])  # doctest: +SKIP
    """

    def __init__(self, monitor: str, *args: Any, **options: Any) -> None:
        name_of(monitor, "monitor")
        super().__init__(monitor if monitor.startswith("eval_") else f"eval_{monitor}", *args, **options)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        known = [log for log in state.log_history if self.monitor in log]
        seen = [(_position(args, state, log), log[self.monitor]) for log in known]
        end = _evaluations(args, state)
        self.begin(end, seen, _rates(kwargs.get("lr_scheduler"), state.max_steps))

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float],
        **kwargs: Any,
    ) -> None:
        if self.monitor not in metrics and not self.monitor.startswith(_prefix(metrics)):
            return  # the evaluation of another data set
        now = {"step": state.global_step, "epoch": state.epoch}
        if self.check(_position(args, state, now), metrics, self._minimizes(args)):
            control.should_training_stop = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.end()

    def _minimizes(self, args: TrainingArguments) -> bool | None:
        if args.greater_is_better is None or args.metric_for_best_model is None:
            return None
        same = self.monitor.removeprefix("eval_") == args.metric_for_best_model.removeprefix("eval_")
        return not args.greater_is_better if same else None


def _evaluations(args: TrainingArguments, state: TrainerState) -> int:
    """How many evaluations there will be."""
    return int(state.num_train_epochs) if args.eval_strategy == "epoch" else _intervals(state.max_steps, state)


def _position(args: TrainingArguments, state: TrainerState, log: dict[str, Any]) -> int:
    """Which evaluation this is; the last one may come before its turn."""
    return round(log["epoch"]) if args.eval_strategy == "epoch" else _intervals(log["step"], state)


def _rates(scheduler: Any, steps: int) -> list[float] | None:
    """What the Trainer's scheduler does in all, a resumed one too: its rates are a function of the step."""
    factors = getattr(getattr(scheduler, "scheduler", scheduler), "lr_lambdas", None)
    if not factors or steps < 1:
        return None
    with harmless("reading the learning rates"):
        return [float(factors[0](int(step))) for step in np.linspace(0, steps - 1, min(steps, MOST_RATES))]
    return None


def _intervals(steps: int, state: TrainerState) -> int:
    return math.ceil(steps / int(state.eval_steps))


def _prefix(metrics: dict[str, float]) -> str:
    """What all names of one evaluation begin with: "eval_", or "eval_NAME_" where there are several data sets."""
    clocks = [name.removesuffix("runtime") for name in metrics if name.endswith("_runtime")]
    return clocks[0] if clocks else "eval_"
