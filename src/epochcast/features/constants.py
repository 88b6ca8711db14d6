"""Numbers on which training, the ONNX graphs and inference must agree."""

HIDDEN = -1e9  # added to the attention score of a token that may not be seen
SMALLEST_LOG_SCALE, LARGEST_LOG_SCALE = -15.0, 3.0  # of a component that a network predicts
LARGEST_OFFSET = 16.0  # of a component's mean, in asinh of units of recent movement

# One component of a streaming network's answers is fixed: whatever was seen, anything can happen.
SURPRISE, SURPRISE_MEAN, SURPRISE_SCALE = 1e-4, 0.5, 0.4  # its weight, mean and scale
