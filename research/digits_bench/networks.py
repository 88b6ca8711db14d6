"""Small networks, many at a time: every tensor has a leading model dimension and nothing mixes models.

A network is a list of linear maps [model, in, out] and a way to join them; all its numbers sit in one row of a matrix
[model, parameter], so that an optimiser is a few operations on one tensor.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Activation = Callable[[Tensor], Tensor]
Shapes = list[tuple[int, int]]
ACTIVATIONS: dict[str, Activation] = {"relu": F.relu, "tanh": torch.tanh, "gelu": F.gelu}


@dataclass(frozen=True)
class Linear:
    """One linear map per model."""

    weight: Tensor  # [model, in, out]
    bias: Tensor  # [model, 1, out]

    def __call__(self, x: Tensor) -> Tensor:
        """[model, ..., in] -> [model, ..., out]"""
        out = torch.baddbmm(self.bias, x.flatten(1, -2), self.weight)
        return out.unflatten(1, x.shape[1:-1])


def mlp_shapes(x_shape: torch.Size, width: int, depth: int, n_classes: int) -> Shapes:
    return list(itertools.pairwise([math.prod(x_shape), *[width] * depth, n_classes]))


def mlp(maps: list[Linear], x: Tensor, activation: Activation, drop: Activation) -> Tensor:
    x = x.flatten(2)
    for hidden in maps[:-1]:
        x = drop(activation(hidden(x)))
    return maps[-1](x)


def cnn_shapes(x_shape: torch.Size, width: int, depth: int, n_classes: int) -> Shapes:
    channels = [1, *[width * 2**i for i in range(depth)]]
    pixels = math.prod(x_shape) // 4**depth  # each layer halves both sides
    return [(9 * a, b) for a, b in itertools.pairwise(channels)] + [(pixels * channels[-1], n_classes)]


def cnn(maps: list[Linear], x: Tensor, activation: Activation, drop: Activation) -> Tensor:
    """3x3 convolutions of stride 2; the models are groups of channels, so that each convolves its own."""
    n_models = len(x)
    image = x.transpose(0, 1)  # [image, model * channel, row, column]
    for convolution in maps[:-1]:
        kernels = convolution.weight.mT.flatten(0, 1).unflatten(1, (-1, 3, 3))
        image = activation(F.conv2d(image, kernels, convolution.bias.flatten(), stride=2, padding=1, groups=n_models))
    features = image.unflatten(1, (n_models, -1)).flatten(2).transpose(0, 1)  # [model, image, feature]
    return maps[-1](drop(features))


def rnn_shapes(x_shape: torch.Size, width: int, depth: int, n_classes: int) -> Shapes:
    inputs = [x_shape[1], *[width] * (depth - 1)]
    return [(size + width, 2 * width) for size in inputs] + [(width, n_classes)]


def rnn(maps: list[Linear], x: Tensor, activation: Activation, drop: Activation) -> Tensor:
    """Layers with one gate, which says how much of the state is replaced; the last state is read out."""
    steps = list(x.unbind(2))  # each [model, example, channel]
    for layer in maps[:-1]:
        state = x.new_zeros(*x.shape[:2], maps[-1].weight.shape[1])
        for i, step in enumerate(steps):
            gate, candidate = layer(torch.cat([step, state], dim=2)).chunk(2, dim=2)
            state = torch.lerp(state, activation(candidate), torch.sigmoid(gate))
            steps[i] = state
    return maps[-1](drop(steps[-1]))


def transformer_shapes(x_shape: torch.Size, width: int, depth: int, n_classes: int) -> Shapes:
    block = [(width, 3 * width), (width, width), (width, 2 * width), (2 * width, width)]
    return [(sum(x_shape), width), *block * depth, (width, n_classes)]


def transformer(maps: list[Linear], x: Tensor, activation: Activation, drop: Activation) -> Tensor:
    """Blocks of one head that normalise first. One-hot places beside the channels make their embedding linear too."""
    n_models, n_examples, n_steps, _ = x.shape
    places = torch.eye(n_steps).expand(n_models, n_examples, -1, -1)
    x = maps[0](torch.cat([x, places], dim=3))
    norm_shape = x.shape[-1:]
    for block in range(1, len(maps) - 1, 4):
        attend_in, attend_out, widen, narrow = maps[block : block + 4]
        query, key, value = attend_in(F.layer_norm(x, norm_shape)).chunk(3, dim=3)
        x = x + drop(attend_out(F.scaled_dot_product_attention(query, key, value)))
        x = x + drop(narrow(activation(widen(F.layer_norm(x, norm_shape)))))
    return maps[-1](x.mean(dim=2))


@dataclass(frozen=True)
class Family:
    """How networks of one kind are built and how large they get."""

    shapes: Callable[[torch.Size, int, int, int], Shapes]
    forward: Callable[[list[Linear], Tensor, Activation, Activation], Tensor]
    widths: tuple[int, ...]  # one is drawn; what is listed twice comes up twice as often
    depths: tuple[int, ...]


FAMILIES = {
    "mlp": Family(mlp_shapes, mlp, (4, 8, 16, 32, 64, 128), (0, 1, 1, 2, 2, 3)),
    "cnn": Family(cnn_shapes, cnn, (2, 4, 8, 16), (1, 2)),
    "rnn": Family(rnn_shapes, rnn, (4, 8, 16, 32), (1, 2)),
    "transformer": Family(transformer_shapes, transformer, (4, 8, 16), (1, 1, 2)),
}


def initial_parameters(shapes: Shapes, scale: Tensor, generator: torch.Generator) -> Tensor:
    """Weights and biases [model, parameter], uniform within `scale` [model] / sqrt(inputs of the map)."""
    parts = []
    for n_in, n_out in shapes:
        bound = scale[:, None] / math.sqrt(n_in)
        parts.append(bound * (2 * torch.rand(len(scale), (n_in + 1) * n_out, generator=generator) - 1))
    return torch.cat(parts, dim=1)


def linear_maps(parameters: Tensor, shapes: Shapes) -> list[Linear]:
    """Views of the rows of `parameters` [model, parameter] as linear maps."""
    sizes = [size for n_in, n_out in shapes for size in (n_in * n_out, n_out)]
    parts = iter(parameters.split(sizes, dim=1))
    return [Linear(next(parts).unflatten(1, shape), next(parts).unsqueeze(1)) for shape in shapes]
