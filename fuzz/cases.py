"""Random runs, metrics and questions for `forecasts.py`: most make sense, many are extreme, some are nonsense."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import epochcast as ec

Rng = np.random.Generator

LONGEST = 600
FARTHEST = 1e15
NONSENSE = (None, "0.5", True, math.nan, math.inf, -1, 0, 10**400, [], {}, object, 1j, b"1", "x" * 5_000)
WORDS = ("cosine", "constant", "linear,warmup=5", "linear,final=0.1", "drops,at=3/8", "cosine,hold=4", "drops,at=60/80")
MODELS = ("default",) * 8 + ("stream", "lcpfn")


@cache
def forecaster(model: str) -> ec.Forecaster:
    return ec.Forecaster(model)


@dataclass
class Case:
    """One call of `forecast`, or a stream of them."""

    kind: str
    values: Any
    horizon: Any
    metric: Any
    options: dict[str, Any]
    model: str = "default"
    schedule: Any = None

    def forecast(self) -> list[ec.Forecast]:
        """One forecast, or those of every update of a stream."""
        told = forecaster(self.model) if self.schedule is None else forecaster(self.model).told(self.schedule)
        if self.kind != "stream":
            return [told.forecast(self.values, self.horizon, self.metric, **self.options)]
        options = dict(self.options)
        steps = options.pop("steps", None)
        stream = told.stream(self.horizon, self.metric, **options)
        return [
            stream.update(value, None if steps is None else steps[index]) for index, value in enumerate(self.values)
        ]

    def row(self, index: int) -> Callable[[], ec.Forecast] | None:
        """The forecast of one run of a batch alone, where the batch lists its runs."""
        if self.kind not in ("batch", "ragged"):
            return None
        steps = self.options.get("steps")
        options = self.options if steps is None else self.options | {"steps": steps[index]}
        return lambda: Case(
            "list", self.values[index], self.horizon, self.metric, options, self.model, self.schedule
        ).forecast()[0]

    def at_once(self) -> Callable[[], ec.Forecast]:
        """A stream's last forecast, from all its values at once."""
        alone = Case("list", list(self.values), self.horizon, self.metric, self.options, self.model, self.schedule)
        return lambda: alone.forecast()[0]

    def shown(self, most: float = 300) -> str:
        short = reprlib.Repr()
        short.maxlist = short.maxtuple = short.maxarray = 12
        short.maxstring = short.maxother = 160
        show = repr if most == math.inf else short.repr
        with np.printoptions(threshold=10**6 if most == math.inf else 12):
            arguments = [show(self.values), show(self.horizon), show(self.metric)]
            arguments += [f"{key}={show(value)}" for key, value in self.options.items()]
        call = "stream" if self.kind == "stream" else "forecast"
        told = "" if self.schedule is None else f", schedule={show(self.schedule)}"
        return f"Forecaster({self.model!r}{told}).{call}({', '.join(arguments)})"


# --- parts of a case --------------------------------------------------------------------------------------------------


def one_of(rng: Rng, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def any_scale(rng: Rng) -> float:
    """Sizes that people have, and now and then all that a float can hold."""
    return float(10.0 ** (rng.uniform(-300, 300) if rng.random() < 0.3 else rng.uniform(-4, 4)))


def any_metric(rng: Rng) -> Any:
    if rng.random() < 0.7:
        name = one_of(rng, ec.metric_names())
        shares = ("accuracy", "error", "auc", "f1")
        return f"{name}%" if name in shares and rng.random() < 0.3 else name
    scale, shift = any_scale(rng), one_of(rng, (0.0, 0.0, -1.0, 1.0, 100.0))
    ends = np.sort(rng.standard_normal(4)) + shift
    hard = [(-math.inf, math.inf), (ends[0], math.inf), (-math.inf, ends[3]), (ends[0], ends[3])][int(rng.integers(4))]
    soft = None if rng.random() < 0.3 else (scale * ends[1], scale * ends[2])
    hard = (scale * hard[0], scale * hard[1])
    return ec.Metric("own", bool(rng.random() < 0.5), hard, soft, transform=bool(rng.random() < 0.9))


def any_length(rng: Rng) -> int:
    draw = rng.random()
    if draw < 0.25:
        return int(rng.integers(4))
    return int(rng.integers(4, 40)) if draw < 0.9 else int(rng.integers(40, LONGEST + 1))


def shape(rng: Rng, length: int) -> Any:
    """A run between 0 and 1, mostly, larger is later."""
    x = np.arange(1.0, length + 1.0)
    forms: list[Callable[[], Any]] = [
        lambda: 1.0 - rng.random() * x ** -rng.uniform(0.1, 2.0),
        lambda: 1.0 - np.exp(-x / rng.uniform(1.0, 30.0)) + rng.normal(0.0, 0.02, length),
        lambda: rng.random(length),
        lambda: np.full(length, one_of(rng, (0.0, 0.5, 1.0, rng.random()))),
        lambda: 0.5 + np.cumsum(rng.normal(0.0, 0.05, length)),
        lambda: np.where(x < rng.uniform(1, length + 1), 0.5 / x, any_scale(rng)),  # explodes
        lambda: np.where(rng.random(length) < 0.1, 10.0 ** rng.uniform(0, 6), rng.random(length)),  # spikes
        lambda: 1.0 - x / max(length, 1),
        lambda: rng.integers(0, 2, length).astype(float),
    ]
    return one_of(rng, forms)()


def any_run(rng: Rng, metric: Any, length: int) -> Any:
    """Values that the metric can take, except for a few."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = _in_bounds(rng, metric, length)
    if length and rng.random() < 0.03:
        values[rng.integers(length)] = one_of(rng, (math.nan, math.inf, -1e300, 1e301, -0.5, 1e39))
    return values


def _in_bounds(rng: Rng, metric: Any, length: int) -> Any:
    unit = shape(rng, length)
    low, high = (ec.Metric.named(metric) if isinstance(metric, str) else metric).hard
    if math.isfinite(low) and math.isfinite(high):
        values = low + (high - low) * np.clip(unit, 0.0, 1.0)
    elif math.isfinite(low):
        values = low + any_scale(rng) * np.abs(unit)
    elif math.isfinite(high):
        values = high - any_scale(rng) * np.abs(1.0 - unit)
    else:
        values = any_scale(rng) * (unit - one_of(rng, (0.0, 0.5, 1.0)))
    return np.asarray(values, dtype=np.float64)


def any_steps(rng: Rng, length: int) -> Any:
    """None for counted ones; else rising ones that may be irregular, huge, fractional or begin at 0."""
    if rng.random() < 0.5:
        return None
    forms: list[Callable[[], Any]] = [
        lambda: np.cumsum(rng.integers(1, 10, length)),
        lambda: np.arange(length),
        lambda: np.cumsum(rng.random(length) + 1e-3),
        lambda: np.cumsum(10.0 ** rng.uniform(0, 12, length)).round(),
        lambda: 1_000 * np.arange(1, length + 1),
        lambda: rng.permutation(length) + 1,
        lambda: np.cumsum(rng.integers(0, 2, length)),  # some twice
    ]
    return one_of(rng, forms)()


def any_horizon(rng: Rng, last: float, length: int) -> Any:
    """Mostly after the last step; sometimes far, sometimes no horizon at all."""
    draw = rng.random()
    if draw < 0.03:
        return one_of(rng, (*NONSENSE, 50.5, last, 1, float(last) + 0.5))
    if draw < 0.1:
        return int(10.0 ** rng.uniform(3, 15))
    ahead = math.ceil(last) + int(10.0 ** rng.uniform(0, 2.3)) + 1
    return one_of(rng, (ahead, float(ahead), np.int64(ahead))) if ahead < FARTHEST else ahead


def any_options(rng: Rng, metric: Any, last: float, horizon: Any) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if rng.random() < 0.1:
        options["missing"] = "drop"
    if rng.random() < 0.1:
        options["untrained"] = one_of(rng, (0.1, 2.3, 1e6, any_scale(rng), *NONSENSE))
    if rng.random() < 0.15 and isinstance(horizon, int) and horizon <= FARTHEST:
        asked = last + (horizon - last) * rng.random(int(rng.integers(0, 5)))
        options["at"] = one_of(
            rng, (asked, [horizon], horizon, np.ceil(asked).tolist(), [*asked, horizon], [[horizon]])
        )
    return options


def any_schedule(rng: Rng, horizon: Any) -> Any:
    if rng.random() < 0.75:
        return None
    size = int(horizon) if isinstance(horizon, (int, np.integer)) and 0 < horizon < 10_000 else 10
    return one_of(
        rng,
        (
            one_of(rng, WORDS),
            one_of(rng, WORDS),
            (0.1 * 0.97 ** np.arange(size)).tolist(),
            lambda step: 0.1 / (1.0 + step),
            lambda step: {}["no rate"],
            [0.1] * (size + 1),
            "cosine,end=2",
            "no schedule",
        ),
    )


# --- kinds of cases ---------------------------------------------------------------------------------------------------


def _single(kind: str, form: Callable[[Rng, Any], Any]) -> Callable[[Rng], Case]:
    """One run, handed over in some form."""

    def make(rng: Rng) -> Case:
        metric = _metric_or_default(rng)
        length = any_length(rng)
        steps = any_steps(rng, length)
        last = float(length if steps is None else np.max(steps, initial=0.0))
        horizon = any_horizon(rng, last, length)
        options = any_options(rng, metric, last, horizon)
        if steps is not None:
            options["steps"] = steps
        values = form(rng, any_run(rng, metric, length))
        if np.ma.isMaskedArray(values) and rng.random() < 0.9:
            options["missing"] = "drop"
        if np.ndim(values) == 2 and np.shape(values)[1] > 1:
            options.pop("steps", None)
        return Case(kind, values, horizon, metric, options, _model(rng), any_schedule(rng, horizon))

    return make


def _several(kind: str, ragged: bool) -> Callable[[Rng], Case]:
    """A batch, as a list of runs."""

    def make(rng: Rng) -> Case:
        metric = _metric_or_default(rng)
        count = int(rng.integers(1, 6))
        lengths = [any_length(rng) for _ in range(count)] if ragged else [any_length(rng)] * count
        if rng.random() < 0.8:  # few metrics can do without any value
            lengths = [max(length, 1) for length in lengths]
        values = [any_run(rng, metric, length) for length in lengths]
        steps = None
        if rng.random() < 0.3:
            steps = [np.cumsum(rng.integers(1, 10, length)) for length in lengths]
        last = float(max(lengths) if steps is None else max(np.max(s, initial=0.0) for s in steps))
        horizon = any_horizon(rng, last, max(lengths))
        options = any_options(rng, metric, last, horizon)
        if steps is not None:
            options["steps"] = steps
        if not ragged and rng.random() < 0.5:
            values = np.array(values)
        return Case(kind, values, horizon, metric, options, _model(rng), any_schedule(rng, horizon))

    return make


def _stream(rng: Rng) -> Case:
    case = _single("stream", lambda rng, values: values.tolist()[:15] or [0.5])(rng)
    case.options.pop("at", None)
    case.options.pop("missing", None)
    if "steps" in case.options:
        case.options["steps"] = np.sort(case.options["steps"])[: len(case.values)]
        if len(case.options["steps"]) < len(case.values):
            del case.options["steps"]
    if case.values and rng.random() < 0.1:
        case.values[int(rng.integers(len(case.values)))] = one_of(rng, NONSENSE)
    return case


def _metric_or_default(rng: Rng) -> Any:
    try:
        return any_metric(rng)
    except ec.EpochcastError:  # bounds that no metric can have
        return "loss"


def _model(rng: Rng) -> str:
    return one_of(rng, MODELS)


def _series(rng: Rng, values: Any) -> Any:
    import pandas

    index = None if rng.random() < 0.5 else np.arange(1, len(values) + 1) * int(rng.integers(1, 5))
    return pandas.Series(values, index=index)


def _frame(rng: Rng, values: Any) -> Any:
    import pandas

    columns = int(rng.integers(1, 4))
    values = values if columns == 1 else values[:20]  # each row is a run
    return pandas.DataFrame({f"run{i}": values for i in range(columns)})


def _tensor(rng: Rng, values: Any) -> Any:
    import torch

    tensor = torch.tensor(
        np.clip(values, -1e30, 1e30), dtype=one_of(rng, (torch.float64, torch.float32, torch.bfloat16))
    )
    return tensor.requires_grad_() if rng.random() < 0.3 else tensor


def _narrow(dtype: Any) -> Callable[[Rng, Any], Any]:
    largest = float(np.finfo(dtype).max)
    return lambda rng, values: np.clip(values, -largest, largest).astype(dtype)


def _integers(rng: Rng, values: Any) -> Any:
    whole = np.nan_to_num(np.clip(values, -1e15, 1e15)).round().astype(np.int64)
    return one_of(rng, (whole, whole.tolist(), whole.astype(np.uint64)))


def _masked(rng: Rng, values: Any) -> Any:
    return np.ma.masked_array(values, mask=rng.random(len(values)) < 0.1)


KINDS: dict[str, Callable[[Rng], Case]] = {
    "list": _single("list", lambda rng, values: one_of(rng, (list, tuple))(values.tolist())),
    "float64": _single("float64", lambda rng, values: values),
    "batch": _several("batch", ragged=False),
    "ragged": _several("ragged", ragged=True),
    "float32": _single("float32", _narrow(np.float32)),
    "float16": _single("float16", _narrow(np.float16)),
    "integers": _single("integers", _integers),
    "stream": _stream,
    "series": _single("series", _series),
    "frame": _single("frame", _frame),
    "tensor": _single("tensor", _tensor),
    "masked": _single("masked", _masked),
}


def anything() -> Any:
    """A strategy of hypothesis: a sound case, one or two of whose arguments may be of any type."""
    from hypothesis import strategies as st

    simple = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.complex_numbers())
    nested = st.recursive(simple, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner))
    numbers = st.lists(st.floats(0.0, 1.0), max_size=8)
    sound = {
        "values": numbers | st.lists(numbers, min_size=1, max_size=3),
        "horizon": st.integers(10, 100) | st.integers(10, int(FARTHEST)),
        "metric": st.sampled_from(ec.metric_names()),
        "options": st.just({}),
        "schedule": st.none() | st.sampled_from(WORDS),
    }
    odd = {
        "values": nested | st.lists(st.floats() | simple, max_size=5),
        "horizon": st.floats() | nested,
        "metric": nested,
        "options": st.fixed_dictionaries({}, optional=dict.fromkeys(("steps", "at", "untrained", "missing"), nested)),
        "schedule": nested,
    }
    choices = [sound | {name: odd[name] for name in names} for names in [(n,) for n in odd] + [("values", "options")]]
    return st.one_of(
        st.builds(Case, kind=st.just("anything"), model=st.sampled_from(["default", "stream"]), **parts)
        for parts in choices
    )
