"""Networks in torch: what they are, what they are trained on, training, and export to ONNX."""
