"""What the networks are built of, in torch.

Weight matrices are stored as [in, out] and applied as `x @ w`, so that an exported graph can point at the very bytes
of the weight file.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


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

    def forward(self, x: Tensor, bias: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """One layer; `bias` [.., new, past + new] is HIDDEN where a token may not look. Returns keys and values.

        `past` and the second result are [2, batch, head, token, size].
        """
        normed = self.attention_norm(x)
        query, key, value = (self._split(part(normed)) for part in (self.query, self.key, self.value))
        if past is not None:
            key, value = torch.cat([past[0], key], dim=2), torch.cat([past[1], value], dim=2)
        scores = query @ key.transpose(-1, -2) / math.sqrt(key.shape[-1]) + bias
        seen = torch.softmax(scores, dim=-1) @ value
        x = x + self.mix(seen.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x)))), torch.stack([key, value])
