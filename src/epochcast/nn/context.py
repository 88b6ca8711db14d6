"""The part of a network that reads other runs of the task: a second decoder, beside the one that knows a run alone.

Each other run is summed up once (`encode`). At a cutoff and a queried step, what is known of it there joins that
summary; the runs are pooled by attention, so that their order does not matter and a run that has nothing to say can be
left aside. What comes out joins the hidden layer of the decoder, which begins as a copy of the one without context.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from epochcast.features.constants import HIDDEN, LEVEL_HEADS, MOVE_HEADS, SUGGESTIONS, WIDTH_OF_NOISE
from epochcast.features.context import NOW_FEATURES, OVERALL_FEATURES, RUN_FEATURES, THEN_FEATURES
from epochcast.nn.layers import Block, Linear

_SELDOM = -2.0  # logit of a suggestion at first
_MOSTLY = 2.0  # and of the answer beside other runs, against the one without them
TINY = 1e-6
HEADS, RUN_HEADS = 8, 4  # of the attention over other runs, and of that among them


@dataclass(frozen=True)
class ContextInputs:
    """What the decoder reads of cutoffs [task, row] and queries [task, row, query] beside other runs [task, other]."""

    states: Tensor  # [task, row, width]: of the runs that are forecast
    cutoff_features: Tensor  # [task, row, feature]
    query_features: Tensor  # [task, row, query, feature]
    other_states: Tensor  # [task, row, other, width]: of the other runs up to the same step
    now: Tensor  # [task, row, other, feature]
    then: Tensor  # [task, row, query, other, feature]
    overall: Tensor  # [task, row, query, feature]
    levels: Tensor  # [task, row, query, other]
    moved: Tensor  # [task, row, query, other]
    expected: Tensor  # [task, row, query, EXPECTED]
    unit: Tensor  # [task, row]


@dataclass(frozen=True)
class ContextOutputs:
    """What the decoder answers: [task, row, query, ...]."""

    raw: Tensor  # 3 x outputs + 1: components around the newest value
    of_suggestions: Tensor  # 3 x SUGGESTIONS: components around suggestions
    means: Tensor  # SUGGESTIONS: what is suggested
    widths: Tensor
    trust: Tensor  # logit of this answer against the one without other runs


class ContextDecoder(nn.Module):
    """Answers like those of `StreamModel.decode`, with other runs in view."""

    def __init__(
        self, state: int, decoder: int, token_features: int, query_features: int, outputs: int, width: int, layers: int
    ) -> None:
        super().__init__()
        self.run_state = Linear(state, width)
        self.run_features = Linear(RUN_FEATURES, width, bias=False)
        self.run_blocks = nn.ModuleList(Block(width, RUN_HEADS, 2 * width) for _ in range(layers))
        self.run_norm = nn.LayerNorm(width)
        self.from_run = Linear(width, width)
        self.from_other = Linear(state, width, bias=False)
        self.from_own = Linear(state, width, bias=False)
        self.from_now = Linear(NOW_FEATURES, width, bias=False)
        self.from_then = Linear(THEN_FEATURES, width, bias=False)
        self.from_asked = Linear(query_features, width, bias=False)
        self.from_overall = Linear(OVERALL_FEATURES, width, bias=False)
        self.pair_norm = nn.LayerNorm(width)
        self.pair_up = Linear(width, width)
        self.pair_down = Linear(width, width, zero=True)
        self.to_heads = Linear(width, HEADS)
        self.to_nobody = Linear(width, HEADS)
        self.from_pooled = Linear(HEADS * width, decoder, bias=False, zero=True)
        self.from_nobody = Linear(HEADS, decoder, bias=False, zero=True)
        self.from_all = Linear(OVERALL_FEATURES, decoder, bias=False, zero=True)
        self.from_state = Linear(state, decoder)
        self.from_cutoff = Linear(token_features, decoder, bias=False)
        self.from_query = Linear(query_features, decoder, bias=False)
        self.decode_hidden = Linear(decoder, decoder)
        self.head = Linear(decoder, 3 * outputs + 1, zero=True)
        self.suggest = Linear(decoder, 3 * SUGGESTIONS, zero=True)
        self.trust = Linear(decoder, 1, zero=True)
        with torch.no_grad():
            self.suggest.bias[:SUGGESTIONS] = _SELDOM  # type: ignore[index]  # it has one
            self.trust.bias[:] = _MOSTLY  # type: ignore[index]

    def encode(self, newest_states: Tensor, features: Tensor, there: Tensor) -> Tensor:
        """Summaries [task, other, width] of other runs by their newest states [task, other, state] and features, of
        which only those count that are `there` [task, other]."""
        x = self.run_state(newest_states) + self.run_features(features)
        bias = HIDDEN * (~there).to(x.dtype)[:, None, None]
        for block in self.run_blocks:
            x, _ = block(x, bias)
        return self.run_norm(x)

    def forward(self, runs: Tensor, there: Tensor, given: ContextInputs) -> ContextOutputs:
        """The answer for summaries of other runs [task, other, width]."""
        of_pair = self.from_run(runs)[:, None] + self.from_other(given.other_states) + self.from_now(given.now)
        asked = self.from_own(given.states)[:, :, None] + self.from_asked(given.query_features)
        asked = asked + self.from_overall(given.overall)
        x = F.gelu(of_pair[:, :, None] + asked[:, :, :, None] + self.from_then(given.then))
        x = x + self.pair_down(F.gelu(self.pair_up(self.pair_norm(x))))
        scores = self.to_heads(x) + HIDDEN * (~there).to(x.dtype)[:, None, None, :, None]
        nobody = self.to_nobody(F.gelu(asked))[:, :, :, None]
        weights = torch.softmax(torch.cat([nobody, scores], dim=3), dim=3)
        pooled = torch.einsum("bnqch,bnqcw->bnqhw", weights[:, :, :, 1:], x).flatten(-2)
        seen = self.from_pooled(pooled) + self.from_nobody(weights[:, :, :, 0]) + self.from_all(given.overall)
        own = self.from_state(given.states) + self.from_cutoff(given.cutoff_features)
        hidden = F.gelu(own[:, :, None] + self.from_query(given.query_features) + seen)
        decoded = F.gelu(self.decode_hidden(hidden))
        means, widths = suggested(weights[:, :, :, 1:], given)
        return ContextOutputs(self.head(decoded), self.suggest(decoded), means, widths, self.trust(decoded)[..., 0])


def suggested(weights: Tensor, given: ContextInputs) -> tuple[Tensor, Tensor]:
    """What configurations and, by some heads' weights [task, row, query, other, head], other runs suggest."""
    chosen = weights[..., : LEVEL_HEADS + MOVE_HEADS]
    share = chosen / (chosen.sum(dim=3, keepdim=True) + TINY)
    values = torch.stack([given.levels] * LEVEL_HEADS + [given.moved] * MOVE_HEADS, dim=-1)
    means = (share * values).sum(dim=3)
    spread = torch.sqrt((share * (values - means[:, :, :, None]) ** 2).sum(dim=3) + TINY**2)
    suggestions = torch.cat([given.expected[..., 0:1], given.expected[..., 2:3], means], dim=-1)
    widths = torch.cat([given.expected[..., 1:2], given.expected[..., 3:4], spread], dim=-1)
    return suggestions, widths + WIDTH_OF_NOISE * given.unit[:, :, None, None]
