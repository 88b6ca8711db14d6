"""Networks on onnxruntime, and their files."""
