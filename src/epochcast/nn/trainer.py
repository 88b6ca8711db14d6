"""Training: a plain loop around an objective that can be killed at any moment and goes on exactly where it was.

Every step draws its curves from a generator seeded by (seed, step, shard), so there is no random state to save, and a
step's shards can be spread over processes without changing what is computed.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, distributed

from epochcast.errors import ConfigError, TrainingError, WeightsError
from epochcast.nn.batch import Targets, sampler_of
from epochcast.nn.context_objective import ContextObjective
from epochcast.nn.model import PAPER_SIZES, ModelConfig
from epochcast.nn.muon import Muon
from epochcast.nn.objective import Cutoffs, Objective, Precision, SetObjective, StreamObjective, prior_borders
from epochcast.prior import paper
from epochcast.rates import RATE_QUERY_FEATURES, RATE_TOKEN_FEATURES
from epochcast.runtime.format import NewerFormatError, header_of, read_header
from epochcast.runtime.weights import read_safetensors, write_safetensors

EVALUATED_AT = (0.1, 0.2, 0.4, 0.8)
_VALIDATION_SEED = 2**31 - 1
_BORDERS_SEED = 2**31 - 2
# Rows of weights that a network with inputs for learning rates has more than one without.
_OF_RATES = {
    "embed.weight": RATE_TOKEN_FEATURES,
    "from_cutoff.weight": RATE_TOKEN_FEATURES,
    "from_query.weight": RATE_QUERY_FEATURES,
}


@dataclass(frozen=True)
class TrainConfig:
    """All that determines a training run; JSON in, JSON out."""

    model: ModelConfig = field(default_factory=ModelConfig)
    prior: str = "paper"  # or real, or module:function
    horizon: int = 100
    curves: int = 100_000
    batch: int = 32
    shards: int = 1  # independent parts of a batch, spread over the processes
    alone: int = 0  # with context: runs of a step without any others; if 0, what reads a run alone stays as it is
    queries: int = 1  # streaming: queried steps per cutoff
    targets: Targets = "antithetic"
    cutoffs: Cutoffs = "curve"
    quiet: float = 0.0  # streaming: share of curves with hardly any noise, beyond what the paper's prior has
    precision: Precision = "float32"  # streaming: bfloat16 is faster where the processor has units for it
    optimizer: Literal["muon", "adam"] = "muon"
    muon_rate: float = 2e-3
    adam_rate: float = 1e-3
    warmup: float = 0.05
    clip: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.curves, self.batch, self.shards, self.queries) < 1 or self.horizon < 2:
            raise ConfigError("curves, batch, shards and queries must be at least 1, horizon at least 2")
        if self.alone < 0:
            raise ConfigError(f"alone={self.alone} must be a number of runs, at least 0")
        if self.batch % self.shards:
            raise ConfigError(f"batch={self.batch} must be a multiple of shards={self.shards}")
        if self.precision not in ("float32", "bfloat16"):
            raise ConfigError(f"precision={self.precision!r} is unknown; choose float32 or bfloat16")
        if not 0.0 <= self.quiet <= 1.0:
            raise ConfigError(f"quiet={self.quiet} must be a share of the curves, 0 to 1")
        if not 0.0 <= self.warmup < 1.0:
            raise ConfigError(f"warmup={self.warmup} must be a share of the run, at least 0 and below 1")

    @property
    def steps(self) -> int:
        return max(self.curves // self.batch, 1)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> TrainConfig:
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise ConfigError(f"the configuration is not JSON: {error}") from None
        if not isinstance(data, dict):
            raise ConfigError(f"the configuration must be a JSON object, not {type(data).__name__}")
        return cls.from_dict(data)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TrainConfig:
        others = {key: value for key, value in data.items() if key != "model"}
        return cls(model=_model(data.get("model", {})), **_fields(cls, others))


def _model(data: Any) -> ModelConfig:
    if not isinstance(data, dict):
        raise ConfigError(f"model = {data!r} must be a JSON object of sizes")
    return ModelConfig(**_fields(ModelConfig, data))


def _fields(cls: type, data: dict[str, Any]) -> dict[str, Any]:
    """The same data, checked: known keys and the types of the defaults."""
    defaults = {f.name: f for f in fields(cls)}
    for key, value in data.items():
        if key not in defaults:
            raise ConfigError(f"unknown key {key!r}; known are {', '.join(defaults)}")
        wanted = type(getattr(cls, key, value))
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            continue
        if type(value) is not wanted:
            raise ConfigError(f"{key} = {value!r} should be of type {wanted.__name__}")
    return data


# The paper's recipe, and one that reaches further on two CPU cores.
RECIPES: dict[str, TrainConfig] = {
    "paper": TrainConfig(
        model=PAPER_SIZES["P3"],
        curves=10_000_000,
        batch=100,
        targets="noisy",
        cutoffs="batch",
        optimizer="adam",
        adam_rate=1e-4,
        warmup=0.25,
    ),
    "lcpfn": TrainConfig(model=PAPER_SIZES["6x128"], curves=300_000, batch=50, targets="exact"),
    "stream": TrainConfig(curves=200_000, quiet=0.03),
    "real": TrainConfig(model=ModelConfig(layers=8, rates=True), prior="real", curves=250_000),
    "context": TrainConfig(
        model=ModelConfig(layers=8, rates=True, context=64),
        prior="real",
        curves=64_000,
        batch=16,
        precision="bfloat16",
        muon_rate=1e-3,
        adam_rate=5e-4,
    ),
}


class Trainer:
    """One training run: its network, its optimisers and how far it is."""

    def __init__(self, config: TrainConfig) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.objective: Objective = _objective(config)
        self.objective.network.to(self.device)
        self.optimizers = _optimizers(config, self.objective)
        self.step = 0
        self.seconds = 0.0
        self.loss = math.nan

    def run(self, steps: int | None = None, report: Callable[[Trainer], None] | None = None) -> None:
        """Take `steps` steps, or all that are left; `report` is called after each."""
        last = self.config.steps if steps is None else min(self.step + steps, self.config.steps)
        while self.step < last:
            started = time.perf_counter()
            self._one_step()
            self.seconds += time.perf_counter() - started
            if report is not None:
                report(self)

    def _one_step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = self._accumulate()
        if not math.isfinite(loss):
            raise TrainingError(f"the loss became {loss} at step {self.step}; the last checkpoint is untouched")
        parameters = [p for p in self.objective.network.parameters() if p.requires_grad]
        _sum_gradients(parameters)
        torch.nn.utils.clip_grad_norm_(parameters, self.config.clip)
        share = _rate_at(self.step, self.config)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["initial_lr"] * share
            optimizer.step()
        self.step += 1
        self.loss = loss

    def _accumulate(self) -> float:
        """Gradients of this process's shards; the mean loss over the shards of all processes."""
        rank, world = _rank(), _world()
        own = range(rank, self.config.shards, world)
        total = torch.zeros(())
        for shard in own:
            rng = np.random.default_rng([self.config.seed, self.step, shard])
            draw = self.objective.sampler(self.config.batch // self.config.shards, rng)
            loss = self.objective.loss(draw, rng) / self.config.shards
            loss.backward()
            total += loss.detach().cpu()
        if world > 1:
            distributed.all_reduce(total)
        return float(total)

    def evaluate(self, curves: int = 500) -> list[float]:
        """Mean log-likelihood at 10/20/40/80 % on fixed curves of the prior."""
        values, usual = self.objective.validation(curves, np.random.default_rng(_VALIDATION_SEED))
        scores = []
        for share in EVALUATED_AT:
            cutoff = math.ceil(share * values.shape[1])
            score = self.objective.predict(values, cutoff).log_prob(values[:, cutoff:])
            scores.append(float((score - usual[:, cutoff:]).mean()))
        return scores

    def start_from(self, path: Path) -> None:
        """Take the weights of a checkpoint or of a model file instead of random ones.

        Learning rates that it could not read yet weigh nothing at first.
        """
        arrays, _ = read_safetensors(path)
        known = {name.removeprefix("model."): array for name, array in arrays.items()}
        own = self.objective.network.state_dict()
        known |= _new_of_context(own, known)
        for name, value in own.items():
            missing = len(value) - len(known[name]) if name in known and value.ndim else 0
            if missing and missing == _OF_RATES.get(name):
                known[name] = np.pad(known[name], ((0, missing), (0, 0)))
            if name not in known or known[name].shape != tuple(value.shape):
                found = known[name].shape if name in known else "nothing"
                raise TrainingError(f"{path.name} holds {found} for {name}, which is {tuple(value.shape)} here")
            value.copy_(torch.from_numpy(known[name]))
        deeper = [name for name in known if name.startswith("blocks.") and name not in own]
        if deeper:
            raise TrainingError(f"{path.name} holds {deeper[0]}, a layer more than here; ask for as many in the recipe")

    # --- checkpoints -------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write the whole state so that a crash at any moment leaves either the old file or the new one."""
        tensors = {f"model.{name}": value.cpu().numpy() for name, value in self.objective.network.state_dict().items()}
        for i, optimizer in enumerate(self.optimizers):
            for index, state in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{i}.{index}.{key}": value.cpu().numpy() for key, value in state.items()}
        write_safetensors(path, tensors, {**self.header(), "step": str(self.step), "seconds": repr(self.seconds)})

    def header(self) -> dict[str, str]:
        """What a file of these weights says of the network."""
        return header_of(self.config.to_json(), self.objective.reads)

    @classmethod
    def resume(cls, path: Path) -> Trainer:
        """The trainer that `save` wrote."""
        arrays, header = read_safetensors(path)
        try:
            config = read_header(path, header)
            del config["reads"]  # it follows from the rest
            trainer = cls(TrainConfig.from_dict(config))
            trainer._restore({name: torch.from_numpy(array) for name, array in arrays.items()})
            trainer.step, trainer.seconds = int(header["step"]), float(header["seconds"])
        except NewerFormatError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise WeightsError(
                f"{path} is no checkpoint to go on from: {reason}; start anew with another file"
            ) from None
        return trainer

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        self.objective.network.load_state_dict(_under(tensors, "model."))
        for i, optimizer in enumerate(self.optimizers):
            state: dict[int, dict[str, Tensor]] = {}
            for name, value in _under(tensors, f"optimizer.{i}.").items():
                index, key = name.split(".", 1)
                state.setdefault(int(index), {})[key] = value
            optimizer.load_state_dict(optimizer.state_dict() | {"state": state})


def _objective(config: TrainConfig) -> Objective:
    if config.model.context:
        return ContextObjective(config.model, config.precision, config.alone)
    if config.model.layout == "stream":
        batches = sampler_of(config.prior, config.horizon, config.targets, config.quiet)
        return StreamObjective(config.model, batches, config.queries, config.precision)
    if config.prior != "paper":
        raise ConfigError(f"prior={config.prior!r} needs a streaming model; try the recipe real")

    def sampler(size: int, rng: np.random.Generator) -> paper.Draw:
        return paper.sample(size, rng, config.horizon)

    borders = prior_borders(sampler, config.model.outputs, np.random.default_rng(_BORDERS_SEED))
    return SetObjective(config.model, sampler, borders, config.horizon, config.targets, config.cutoffs)


def _new_of_context(own: Mapping[str, Tensor], known: Mapping[str, Any]) -> dict[str, Any]:
    """Weights that a network has for reading other runs, where they are not known yet.

    Its decoder begins as a copy of the one without context; what reads other runs keeps its random weights.
    """
    new = [name for name in own if name.startswith("context.") and name not in known]
    return {name: known.get(name.removeprefix("context."), own[name].numpy()) for name in new}


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _optimizers(config: TrainConfig, objective: Objective) -> list[torch.optim.Optimizer]:
    """Muon for the matrices between hidden states, AdamW for embeddings, norms, biases and heads."""
    named = [(name, p) for name, p in objective.network.named_parameters() if p.requires_grad]
    hidden = [p for name, p in named if config.optimizer == "muon" and p.ndim == 2 and objective.is_hidden(name)]
    inside = {id(p) for p in hidden}
    rest = [p for _, p in named if id(p) not in inside]
    adam = torch.optim.AdamW(rest, lr=config.adam_rate, betas=(0.9, 0.98), weight_decay=0.0)
    optimizers: list[torch.optim.Optimizer] = [adam, Muon(hidden, lr=config.muon_rate)] if hidden else [adam]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]
    return optimizers


def _rate_at(step: int, config: TrainConfig) -> float:
    """Linear warm-up, then a cosine to zero."""
    warm = max(int(config.warmup * config.steps), 1)
    return min((step + 1) / warm, 1.0) * 0.5 * (1.0 + math.cos(math.pi * step / config.steps))


def _rank() -> int:
    return distributed.get_rank() if distributed.is_initialized() else 0


def _world() -> int:
    return distributed.get_world_size() if distributed.is_initialized() else 1


def _sum_gradients(parameters: Sequence[Tensor]) -> None:
    """Add up the gradients of all processes; each shard's loss is already divided by the number of shards."""
    if _world() == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([grad.flatten() for grad in gradients])
    distributed.all_reduce(flat)
    for grad, total in zip(gradients, flat.split([grad.numel() for grad in gradients]), strict=True):
        grad.copy_(total.view_as(grad))


def join_processes() -> int:
    """Join the process group that torchrun announces, if any; returns this process's rank."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not distributed.is_initialized():
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return _rank()


def with_changes(config: TrainConfig, **changes: Any) -> TrainConfig:
    """A recipe with some of its fields replaced."""
    return replace(config, **{key: value for key, value in changes.items() if value is not None})
