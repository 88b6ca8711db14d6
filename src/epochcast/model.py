"""The networks, in torch: the paper's set transformer and the streaming transformer.

Weight matrices are stored as [in, out] and applied as `x @ w`, so that an exported graph can point at the very bytes
of the weight file.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from epochcast.errors import ConfigError

Layout = Literal["set", "stream"]
Head = Literal["bars", "mixture"]

SMALLEST_LOG_SCALE = -15.0


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
    token_features: int = 2
    cutoff_features: int = 0
    query_features: int = 1
    decoder: int = 256
    anchored: bool = True  # streaming: components start from the anchor's own

    def __post_init__(self) -> None:
        if self.layout not in ("set", "stream") or self.head not in ("bars", "mixture"):
            raise ConfigError(f"layout={self.layout!r}, head={self.head!r}: choose set or stream, bars or mixture")
        if self.width % self.heads:
            raise ConfigError(f"width={self.width} must be a multiple of heads={self.heads}")
        smallest = min(self.layers, self.width, self.heads, self.hidden, self.outputs)
        if smallest < 1:
            raise ConfigError(f"sizes of a model must be positive, not {smallest}")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def paper_config(layers: int, width: int) -> ModelConfig:
    """A size of the paper's grid: layers 3, 6 or 12, width 128, 256 or 512, hidden size 2 x width, 1,000 bins."""
    return ModelConfig("set", "bars", layers, width, max(width // 128, 1), 2 * width, 1000)


PAPER_SIZES = {
    "P1": paper_config(3, 128),
    "P2": paper_config(3, 256),
    "P3": paper_config(12, 512),
    "6x128": paper_config(6, 128),
}


class Linear(nn.Module):
    """x @ weight + bias, with the weight stored as [in, out]."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, zero: bool = False) -> None:
        super().__init__()
        weight = torch.zeros(inputs, outputs) if zero else torch.randn(inputs, outputs) / math.sqrt(inputs)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


class Block(nn.Module):
    """A pre-norm transformer block; output projections start at zero, so that it starts as the identity."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query = Linear(width, width, bias=False)
        self.key = Linear(width, width, bias=False)
        self.value = Linear(width, width, bias=False)
        self.mix = Linear(width, width, bias=False, zero=True)
        self.mlp_norm = nn.LayerNorm(width)
        self.up = Linear(width, hidden)
        self.down = Linear(hidden, width, zero=True)

    def _split(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """One layer; `mask` [.., new, past + new] is True where a token may look. Returns keys and values for later.

        `past` and the second result are [2, batch, head, token, size].
        """
        normed = self.attention_norm(x)
        memory = torch.stack([self._split(self.key(normed)), self._split(self.value(normed))])
        if past is not None:
            memory = torch.cat([past, memory], dim=3)
        seen = F.scaled_dot_product_attention(self._split(self.query(normed)), memory[0], memory[1], attn_mask=mask)
        x = x + self.mix(seen.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x)))), memory


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
        self.head = Linear(config.width, config.outputs if config.head == "bars" else 3 * config.outputs, zero=True)
        _spread_components(self.head, config)

    def encode(self, steps: Tensor, values: Tensor, observed: Tensor) -> Tensor:
        """States [batch, token, width] of steps and values [batch, token]; values count only where observed."""
        tokens = self.embed_step(steps[..., None])
        tokens = tokens + self.embed_value(values[..., None]) * observed[..., None].to(tokens.dtype)
        itself = torch.eye(steps.shape[1], dtype=torch.bool, device=steps.device)
        mask = (observed[:, None, :] | itself)[:, None]  # [batch, head, token, token]
        for block in self.blocks:
            tokens, _ = block(tokens, mask)
        return self.norm(tokens)

    def forward(self, steps: Tensor, values: Tensor, observed: Tensor, queries: Tensor) -> Tensor:
        """Raw outputs [batch, query, output] for contexts [batch, token] and queried steps [batch, query]."""
        blank = torch.zeros_like(queries)
        states = self.encode(
            torch.cat([steps, queries], dim=1),
            torch.cat([values, blank], dim=1),
            torch.cat([observed, blank.bool()], dim=1),
        )
        return self.head(states[:, steps.shape[1] :])


def _spread_components(head: Linear, config: ModelConfig) -> None:
    """Bias a mixture head so that its components start apart from each other, over the range of the prior."""
    if config.head == "mixture":
        count = config.outputs
        with torch.no_grad():
            head.bias[count : 2 * count] = torch.linspace(0.1, 0.9, count)
            head.bias[2 * count :] = math.log(0.1)
