"""What the header of a weight file says of its network, in today's form whatever the age of the file.

Beside the configuration of the training stand the version of this format and `reads`: what the training batches
supplied beside the values of a run. A network is fed nothing else, and a question that needs more is refused.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from epochcast.errors import WeightsError
from epochcast.question import Input

FORMAT = 2
_READABLE: frozenset[Input] = frozenset(
    {"untrained", "kind", "schedule", "context", "config"}
)  # what networks of this format can be fed
_LARGEST_SIZE = 1_000_000  # of anything in a network


class NewerFormatError(WeightsError):
    """A file that a later version of epochcast wrote."""


def header_of(config: str, reads: Collection[Input]) -> dict[str, str]:
    """The header of a network that was trained by a configuration (JSON) on batches that supplied `reads`."""
    return {"config": config, "format": str(FORMAT), "reads": json.dumps(sorted(reads))}


def read_header(file: Path, header: Mapping[str, str]) -> dict[str, Any]:
    """The configuration in a header with its `reads`, migrated; a header of a newer version is refused.

    One that is no header of ours raises a KeyError, TypeError, ValueError, AttributeError or RecursionError.
    """
    config: dict[str, Any] = json.loads(header["config"])
    version = json.loads(header.get("format", "0"))
    if type(version) is not int or version < 0:
        raise ValueError(f"format={reprlib.repr(version)}")
    if version > FORMAT:
        raise NewerFormatError(
            f"{file} has format {reprlib.repr(version)}, this version of epochcast reads up to {FORMAT}; "
            "upgrade it: pip install --upgrade epochcast"
        )
    if version == 0:
        config = migrated(config)
    else:
        config["reads"] = json.loads(header["reads"])
    if version < 2:  # no network read other runs then
        config["model"] = {"context": 0, "context_layers": 0, **config["model"]}
    return config


def migrated(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration from before formats had versions (format 0), in the form of today.

    What a network reads followed from its prior then, and sizes that have no meaning any more stood beside the others.
    """
    model = {"rates": False, **config["model"]}
    for retired in ("basis", "clusters", "functions"):
        model.pop(retired, None)
    reads: list[Input] = []
    if model["layout"] == "stream" and config["prior"] == "paper":
        reads = ["kind"]  # it went on from a network of real curves, which read it
    elif model["layout"] == "stream" and config["prior"] == "real":
        reads = ["kind", "schedule", "untrained"] if model["rates"] else ["kind", "untrained"]
    return {**config, "model": model, "reads": reads}


def _is_size(value: Any) -> bool:
    return type(value) is int and 1 <= value <= _LARGEST_SIZE


# What inference needs to know of a network, and what it may be.
_CONFIG: dict[str, Callable[[Any], bool]] = {
    "prior": lambda value: isinstance(value, str),
    "horizon": lambda value: _is_size(value) and value >= 2,
    "reads": lambda value: isinstance(value, list) and all(entry in _READABLE for entry in value),
}
_MODEL: dict[str, Callable[[Any], bool]] = {
    "layout": lambda value: value in ("set", "stream"),
    "head": lambda value: value in ("bars", "mixture"),
    "layers": _is_size,
    "width": _is_size,
    "heads": _is_size,
    "rates": lambda value: isinstance(value, bool),
    "context": lambda value: value == 0 or _is_size(value),
}


def config_of(weights: Path, header: Mapping[str, str]) -> dict[str, Any]:
    """The configuration in the header of weights: all that inference reads of it is there and makes sense."""
    try:
        config = read_header(weights, header)
        model = config["model"]
        wrong = [f"{key}={reprlib.repr(config.get(key))}" for key, fits in _CONFIG.items() if not fits(config.get(key))]
        wrong += [f"{key}={reprlib.repr(model.get(key))}" for key, fits in _MODEL.items() if not fits(model.get(key))]
        wrong = wrong or _contradictions(config)
    except NewerFormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise WeightsError(f"{weights} does not say which network it belongs to; export it again") from None
    if wrong:
        raise WeightsError(f"{weights} describes no network: {', '.join(wrong)}; export it again")
    return config


def _contradictions(config: Mapping[str, Any]) -> list[str]:
    """What does not go together in a configuration whose entries make sense one by one."""
    model, reads = config["model"], config["reads"]
    wrong = []
    if model["width"] % model["heads"]:
        wrong.append(f"width={model['width']}, which is no multiple of heads={model['heads']}")
    if reads and model["layout"] == "set":
        wrong.append(f"reads={reads} of a set network, which has no inputs for them")
    elif "schedule" in reads and not model["rates"]:
        wrong.append(f"reads={reads} without rates=True, the inputs for a schedule")
    elif "context" in reads and not model["context"]:
        wrong.append(f"reads={reads} with context=0, without a decoder for other runs")
    return wrong
