"""The networks, in torch: the paper's set transformer and the streaming transformer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from epochcast.errors import ConfigError
from epochcast.features.constants import HIDDEN
from epochcast.features.run import KIND_FEATURE, QUERY_FEATURES, TOKEN_FEATURES
from epochcast.nn.context import ContextDecoder
from epochcast.nn.layers import Block, Linear
from epochcast.rates import RATE_QUERY_FEATURES, RATE_TOKEN_FEATURES

Layout = Literal["set", "stream"]
Head = Literal["bars", "mixture"]


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of a network; `preset` knows the paper's grid and our own."""

    layout: Layout = "stream"
    head: Head = "mixture"
    layers: int = 6
    width: int = 128
    heads: int = 4
    hidden: int = 512
    outputs: int = 12  # bins or Gaussian components
    decoder: int = 256  # streaming: width of the decoder
    rates: bool = False  # streaming: has inputs for learning rates
    context: int = 0  # streaming: width of the decoder's view of other runs; 0 for a network that reads none
    context_layers: int = 2  # streaming: of the summaries of other runs

    def __post_init__(self) -> None:
        if self.layout not in ("set", "stream") or self.head not in ("bars", "mixture"):
            raise ConfigError(f"layout={self.layout!r}, head={self.head!r}: choose set or stream, bars or mixture")
        if self.width % self.heads:
            raise ConfigError(f"width={self.width} must be a multiple of heads={self.heads}")
        smallest = min(self.layers, self.width, self.heads, self.hidden, self.outputs)
        if smallest < 1:
            raise ConfigError(f"sizes of a model must be positive, not {smallest}")

    @property
    def token_features(self) -> int:
        """Of a value, for a streaming network."""
        return TOKEN_FEATURES + RATE_TOKEN_FEATURES * self.rates

    @property
    def query_features(self) -> int:
        """Of a queried step, for a streaming network."""
        return QUERY_FEATURES + RATE_QUERY_FEATURES * self.rates


def paper_config(layers: int, width: int) -> ModelConfig:
    """A size of the paper's grid: layers 3, 6 or 12, width 128, 256 or 512, hidden size 2 x width, 1,000 bins."""
    return ModelConfig("set", "bars", layers, width, max(width // 128, 1), 2 * width, 1000)


PAPER_SIZES = {
    "P1": paper_config(3, 128),
    "P2": paper_config(3, 256),
    "P3": paper_config(12, 512),
    "6x128": paper_config(6, 128),
}


class SetModel(nn.Module):
    """LC-PFN (section 3.4): observed and queried steps are tokens without positions.

    Every token attends to the observed ones and to itself, never to another query.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_step = Linear(1, config.width)
        self.embed_value = Linear(1, config.width)
        self.blocks = nn.ModuleList(Block(config.width, config.heads, config.hidden) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.decode_hidden = Linear(config.width, config.hidden)  # without it, bins stay too wide late in a curve
        self.head = Linear(config.hidden, config.outputs if config.head == "bars" else 3 * config.outputs, zero=True)
        if config.head == "mixture":
            _spread_components(self.head, torch.linspace(0.1, 0.9, config.outputs), math.log(0.1))

    def encode(self, steps: Tensor, values: Tensor, observed: Tensor) -> Tensor:
        """States [batch, token, width] of steps and values [batch, token]; values count only where observed."""
        tokens = self.embed_step(steps[..., None])
        tokens = tokens + self.embed_value(values[..., None]) * observed[..., None].to(tokens.dtype)
        itself = torch.eye(steps.shape[1], dtype=torch.bool, device=steps.device)
        hidden = ~(observed[:, None, :] | itself)[:, None]  # [batch, head, token, token]
        bias = HIDDEN * hidden.to(tokens.dtype)
        for block in self.blocks:
            tokens, _ = block(tokens, bias)
        return self.norm(tokens)

    def decode(self, states: Tensor) -> Tensor:
        """Raw outputs [..., output] of states [..., width]."""
        outputs: Tensor = self.head(F.gelu(self.decode_hidden(states)))
        return outputs

    def forward(self, steps: Tensor, values: Tensor, observed: Tensor, queries: Tensor) -> Tensor:
        """Raw outputs [batch, query, output] for contexts [batch, token] and queried steps [batch, query]."""
        blank = torch.zeros_like(queries)
        states = self.encode(
            torch.cat([steps, queries], dim=1),
            torch.cat([values, blank], dim=1),
            torch.cat([observed, blank.bool()], dim=1),
        )
        return self.decode(states[:, steps.shape[1] :])


def _spread_components(head: Linear, means: Tensor, log_scale: float) -> None:
    """Bias a mixture head so that its components start apart from each other."""
    assert head.bias is not None
    with torch.no_grad():
        head.bias[len(means) : 2 * len(means)] = means
        head.bias[2 * len(means) : 3 * len(means)] = log_scale


class StreamModel(nn.Module):
    """A causal transformer over what was seen, and a decoder from the state at a cutoff to any later step.

    One pass over a finished curve yields the forecasts at all its cutoffs; one new value is one new token on the
    keys and values of the earlier ones. The decoder answers around the newest value, in units of recent movement.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = Linear(config.token_features, config.width)
        self.blocks = nn.ModuleList(Block(config.width, config.heads, config.hidden) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.from_state = Linear(config.width, config.decoder)
        self.from_cutoff = Linear(config.token_features, config.decoder, bias=False)
        self.from_query = Linear(config.query_features, config.decoder, bias=False)
        self.decode_hidden = Linear(config.decoder, config.decoder)
        self.head = Linear(config.decoder, 3 * config.outputs + 1, zero=True)
        _spread_components(self.head, torch.linspace(-3.0, 3.0, config.outputs), 1.0)
        if config.context:
            self.context = ContextDecoder(
                config.width, config.decoder, config.token_features, config.query_features, config.outputs,
                config.context, config.context_layers,
            )  # fmt: skip
        with torch.no_grad():  # a network that never sees what is measured must not care
            self.embed.weight[KIND_FEATURE] = 0.0
            self.from_cutoff.weight[KIND_FEATURE] = 0.0

    def encode(self, tokens: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """States [batch, token, width] and all keys and values [layer, 2, batch, head, token, size]."""
        states = self.embed(tokens)
        before = 0 if past is None else past.shape[4]
        new = tokens.shape[1]
        bias = torch.full((new, before + new), HIDDEN, device=tokens.device).triu(before + 1)
        memory = []
        for layer, block in enumerate(self.blocks):
            states, own = block(states, bias, None if past is None else past[layer])
            memory.append(own)
        return self.norm(states), torch.stack(memory)

    def decode(self, states: Tensor, cutoff_features: Tensor, query_features: Tensor) -> Tensor:
        """Raw outputs [..., query, 3 x component + 1] for states [..., width] and queries [..., query, feature]."""
        context = self.from_state(states) + self.from_cutoff(cutoff_features)
        hidden = F.gelu(context[..., None, :] + self.from_query(query_features))
        return self.head(F.gelu(self.decode_hidden(hidden)))

    def forward(
        self, tokens: Tensor, past: Tensor, positions: Tensor, cutoff_features: Tensor, query_features: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What inference runs: tokens [batch, token, feature], positions [batch, cutoff] among the new tokens."""
        states, memory = self.encode(tokens, past)
        index = positions[..., None].expand(-1, -1, states.shape[-1])
        return self.decode(states.gather(1, index), cutoff_features, query_features), memory
