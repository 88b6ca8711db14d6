"""Experiment 3: model selection with stopping rules, replayed on recorded runs."""
