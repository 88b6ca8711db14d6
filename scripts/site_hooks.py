"""What the site takes from the code when it is built: the command line, the metrics, the cards of the models, the log.

MkDocs calls `on_page_markdown` for each page; a line `<!-- generated: NAME -->` in it becomes what NAME says below.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer

import epochcast as ec
from epochcast.cli.commands import app
from epochcast.runtime.networks import load_network
from epochcast.runtime.weights import registry

ROOT = Path(__file__).resolve().parents[1]
CUTOFFS = ("10 %", "20 %", "40 %", "80 %")
_MARK = re.compile(r"<!-- generated: ([a-z ]+) -->")
_TYPES = {"int": "INTEGER", "float": "NUMBER", "str": "TEXT", "Path": "PATH"}
_BELOW_THE_LOG = re.compile(r"\]\(\.\./docs/research/")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as Markdown has it."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *cells))


# --- the command line -------------------------------------------------------------------------------------------------


def commands() -> dict[str, Any]:
    """Every command with its full name, such as `epochcast evaluate real`."""
    found: dict[str, Any] = {}
    waiting = [("epochcast", typer.main.get_command(app))]
    while waiting:
        name, command = waiting.pop(0)
        inner = getattr(command, "commands", None)
        if inner is None:
            found[name] = command
        else:
            waiting += [(f"{name} {key}", inner[key]) for key in inner]
    return found


def command_line() -> str:
    return "\n\n".join(_command(name, command) for name, command in commands().items())


def _command(name: str, command: Any) -> str:
    shown = [param for param in command.params if not getattr(param, "hidden", False) and param.name != "help"]
    arguments = [param for param in shown if param.param_type_name == "argument"]
    options = [param for param in shown if param.param_type_name == "option"]
    usage = [
        name,
        *(_usage_of(param) for param in arguments),
        *(_usage_of(param) for param in options if param.required),
    ]
    parts = [f"## {name}", command.help, f"```\n{' '.join(usage)} [OPTIONS]\n```"]
    hints = _hints(command)
    if arguments:
        rows = [(f"`{param.name.upper()}`", _help(param)) for param in arguments]
        parts.append(table(("argument", "what"), rows))
    rows = [(_spelled(param, hints), _help(param), _default(param)) for param in options]
    parts.append(table(("option", "what", "default"), rows))
    return "\n\n".join(parts)


def _hints(command: Any) -> dict[str, Any]:
    """The annotated types of the function behind a command."""
    return get_type_hints(inspect.unwrap(command.callback))


def _usage_of(param: Any) -> str:
    name = param.name.upper()
    if param.param_type_name == "option":
        return f"{param.opts[0]} {param.metavar or name}"
    return name if param.required else f"[{name}]"


def _spelled(param: Any, hints: dict[str, Any]) -> str:
    spelled = "/".join([*param.opts, *param.secondary_opts])
    kinds = {
        kind.__name__ for kind in [hints.get(param.name), *get_args(hints.get(param.name))] if inspect.isclass(kind)
    }
    word = param.metavar or next((_TYPES[kind] for kind in _TYPES if kind in kinds), "")
    return f"`{spelled} {word}`" if word and "bool" not in kinds else f"`{spelled}`"


def _help(param: Any) -> str:
    return str(param.help or "")


def _default(param: Any) -> str:
    if param.required:
        return "required"
    return "" if param.default in (None, False, "", ()) else f"`{param.default}`"


# --- metrics and models -----------------------------------------------------------------------------------------------


def metrics() -> str:
    """The presets, with what they say of a metric."""
    rows = []
    for name in ec.metric_names():
        metric = ec.Metric.named(name)
        soft = "from the run" if metric.soft is None else _bounds(metric.soft)
        share = "yes" if metric.soft == (0.0, 1.0) and metric.transform else ""
        better = "smaller" if metric.minimize else "larger"
        rows.append((f"`{name}`", better, _bounds(metric.hard), soft, share))
    return table(("name", "better is", "cannot leave", "differences matter in", "percentages with `%`"), rows)


def _bounds(bounds: tuple[float, float]) -> str:
    low, high = ("∞" if bound == float("inf") else "-∞" if bound == -float("inf") else f"{bound:g}" for bound in bounds)
    return f"{low} to {high}"


def models() -> str:
    """The cards of the models that ship."""
    known = registry()
    names = sorted(known["models"], key=lambda name: name != known["default"])
    return "\n\n".join(_card(name, known["models"][name], name == known["default"]) for name in names)


def _card(name: str, entry: dict[str, Any], is_default: bool) -> str:
    card = entry["card"]
    engine = load_network(name)
    rows = [
        ("for", card["about"]),
        ("version", f"{card['version']}, of {card['date']}"),
        (
            "reads",
            ", ".join(sorted(engine.reads)) + ", beside values and steps" if engine.reads else "values and steps",
        ),
        ("trained on", f"{card['curves']:,} curves of the prior `{card['prior']}`, in {card['minutes']:,} minutes"),
        ("recipe", card["recipe"]),
        *([("chosen on", card["chosen_on"])] if "chosen_on" in card else []),
        ("parameters", f"{card['weights']:,}"),
        ("sha256 of the weights", f"`{entry['sha256'][f'{name}.safetensors']}`"),
    ]
    scores = [
        ("log-likelihood", *(f"{value:.3f}" for value in card["log_likelihood"])),
        ("its standard error", *(f"{value:.3f}" for value in card["log_likelihood_error"])),
        ("inside 90 % intervals", *(f"{value:.3f}" for value in card["coverage90"])),
    ]
    heading = f"## {name}" + (" (the default)" if is_default else "") + f" {{ #{name} }}"
    scored = f"On {card['scored_on']:,} fresh curves of the paper's prior (`epochcast evaluate prior --model {name}`):"
    return "\n\n".join([heading, table(("what", "of this model"), rows), scored, table(("seen", *CUTOFFS), scores)])


# --- the log ----------------------------------------------------------------------------------------------------------


def log() -> str:
    """`research/log.md`, whose links lead from its own folder."""
    text = (ROOT / "research" / "log.md").read_text(encoding="utf-8")
    return _BELOW_THE_LOG.sub("](", text)


GENERATED: dict[str, Callable[[], str]] = {
    "command line": command_line,
    "metrics": metrics,
    "models": models,
    "log": log,
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs' hook: the page with its generated parts."""
    return _MARK.sub(lambda match: GENERATED[match[1]](), markdown)
