"""Experiment 1: forecasts of curves of the paper's prior."""
