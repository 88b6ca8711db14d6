"""The ONNX graphs of the decoder that reads other runs, written operation by operation like those of `graph`.

There are two: summaries of other runs are made once and kept, answers are asked for again and again.
"""

from __future__ import annotations

from epochcast.features.constants import LEVEL_HEADS, MOVE_HEADS, SUGGESTIONS
from epochcast.features.context import NOW_FEATURES, OVERALL_FEATURES, RUN_FEATURES, THEN_FEATURES
from epochcast.nn.context import HEADS, RUN_HEADS, TINY
from epochcast.nn.graph import Graph
from epochcast.nn.model import ModelConfig


def summaries_of_runs(graph: Graph, config: ModelConfig) -> None:
    """Inputs as of `ContextDecoder.encode`, of one context: [1, run, ...]."""
    states = graph.input("states", (1, "run", config.width))
    features = graph.input("features", (1, "run", RUN_FEATURES))
    summaries = graph.output("summaries", (1, "run", config.context))
    x = graph.add("Add", graph.linear(states, "context.run_state"), graph.product(features, "context.run_features"))
    for layer in range(config.context_layers):
        block = f"context.run_blocks.{layer}"
        normed = graph.norm(x, f"{block}.attention_norm")
        query, key, value = (graph.product(normed, f"{block}.{part}") for part in ("query", "key", "value"))
        seen = graph.add("MultiHeadAttention", query, key, value, num_heads=RUN_HEADS)
        x = graph.add("Add", x, graph.product(seen, f"{block}.mix"))
        change = graph.linear(graph.linear_gelu(graph.norm(x, f"{block}.mlp_norm"), f"{block}.up"), f"{block}.down")
        x = graph.add("Add", x, change)
    graph.norm(x, "context.run_norm", to=summaries)


def answers_beside_runs(graph: Graph, config: ModelConfig) -> None:
    """Inputs as of `ContextDecoder.forward`, of one context: rows are cutoffs."""
    runs = graph.input("summaries", (1, "run", config.context))
    states = graph.input("states", ("row", config.width))
    cutoff_features = graph.input("cutoff_features", ("row", config.token_features))
    query_features = graph.input("query_features", ("row", "query", config.query_features))
    other_states = graph.input("other_states", ("row", "run", config.width))
    now = graph.input("now", ("row", "run", NOW_FEATURES))
    then = graph.input("then", ("row", "query", "run", THEN_FEATURES))
    overall = graph.input("overall", ("row", "query", OVERALL_FEATURES))
    values = [graph.input(name, ("row", "query", "run")) for name in ("levels", "moved")]
    raw = graph.output("raw", ("row", "query", 3 * config.outputs + 1))
    of_suggestions = graph.output("of_suggestions", ("row", "query", 3 * SUGGESTIONS))
    trust = graph.output("trust", ("row", "query", 1))

    of_pair = graph.add(
        "Add", graph.linear(runs, "context.from_run"), graph.product(other_states, "context.from_other")
    )
    of_pair = graph.add("Add", of_pair, graph.product(now, "context.from_now"))
    own = graph.add("Unsqueeze", graph.product(states, "context.from_own"), graph.integers(1))
    asked = graph.add("Add", own, graph.product(query_features, "context.from_asked"))
    asked = graph.add("Add", asked, graph.product(overall, "context.from_overall"))
    x = graph.add("Add", graph.product(then, "context.from_then"), graph.add("Unsqueeze", asked, graph.integers(2)))
    x = graph.add("Gelu", graph.add("Add", x, graph.add("Unsqueeze", of_pair, graph.integers(1))))
    change = graph.linear_gelu(graph.norm(x, "context.pair_norm"), "context.pair_up")
    x = graph.add("Add", x, graph.linear(change, "context.pair_down"))

    nobody = graph.add("Unsqueeze", graph.linear(graph.add("Gelu", asked), "context.to_nobody"), graph.integers(2))
    scores = graph.add("Concat", nobody, graph.linear(x, "context.to_heads"), axis=2)
    weights = graph.add("Softmax", scores, axis=2)
    of_nobody = graph.add("Squeeze", graph.slice(weights, 0, 1, axis=2), graph.integers(2))
    of_runs = graph.add("Transpose", graph.slice(weights, 1, None, axis=2), perm=[0, 1, 3, 2])
    pooled = graph.add("Reshape", graph.add("MatMul", of_runs, x), graph.integers(0, 0, HEADS * config.context))
    seen = graph.add("Add", graph.product(pooled, "context.from_pooled"), graph.product(overall, "context.from_all"))
    seen = graph.add("Add", seen, graph.product(of_nobody, "context.from_nobody"))

    known = graph.add(
        "Add", graph.linear(states, "context.from_state"), graph.product(cutoff_features, "context.from_cutoff")
    )
    known = graph.add("Add", graph.add("Unsqueeze", known, graph.integers(1)), seen)
    hidden = graph.add("Gelu", graph.add("Add", graph.product(query_features, "context.from_query"), known))
    decoded = graph.linear_gelu(hidden, "context.decode_hidden")
    graph.linear(decoded, "context.head", to=raw)
    graph.linear(decoded, "context.suggest", to=of_suggestions)
    graph.linear(decoded, "context.trust", to=trust)
    _suggested(graph, of_runs, values)


def _suggested(graph: Graph, weights: str, values: list[str]) -> None:
    """Means and spreads of other runs' levels and moves [row, query, run] by weights [row, query, head, run]."""
    heads = LEVEL_HEADS + MOVE_HEADS
    chosen = graph.slice(weights, 0, heads, axis=2)
    total = graph.add("ReduceSum", chosen, graph.integers(3), keepdims=1)
    share = graph.add("Div", chosen, graph.add("Add", total, graph.number(TINY)))
    rows = [graph.add("Unsqueeze", value, graph.integers(2)) for value in values]
    every = graph.add("Concat", *[rows[0]] * LEVEL_HEADS, *[rows[1]] * MOVE_HEADS, axis=2)
    axes = ("row", "query", heads)
    means = graph.add("ReduceSum", graph.add("Mul", share, every), graph.integers(3), keepdims=1)
    graph.add("Squeeze", means, graph.integers(3), to=graph.output("means", axes))
    apart = graph.add("Sub", every, means)
    squares = graph.add("Mul", share, graph.add("Mul", apart, apart))
    variance = graph.add("ReduceSum", squares, graph.integers(3), keepdims=0)
    graph.add("Sqrt", graph.add("Add", variance, graph.number(TINY**2)), to=graph.output("spreads", axes))
