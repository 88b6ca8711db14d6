"""Numbers on which training, the ONNX graphs and inference must agree."""

HIDDEN = -1e9  # added to the attention score of a token that may not be seen
SMALLEST_LOG_SCALE, LARGEST_LOG_SCALE = -15.0, 3.0  # of a component that a network predicts
LARGEST_OFFSET = 16.0  # of a component's mean, in asinh of units of recent movement

# One component of a streaming network's answers is fixed: whatever was seen, anything can happen.
SURPRISE, SURPRISE_MEAN, SURPRISE_SCALE = 1e-4, 0.5, 0.4  # its weight, mean and scale

# With other runs in view, some components lie around what these suggest instead of around the newest value.
LEVEL_HEADS, MOVE_HEADS = 2, 2  # heads of attention that suggest a level, or how the newest value moves
SUGGESTIONS = 2 + LEVEL_HEADS + MOVE_HEADS  # those of configurations come first
WIDTH_OF_NOISE = 0.3  # of the recent movement, added to the width of a suggestion
LARGEST_SHIFT = 4.0  # of such a component, in widths
