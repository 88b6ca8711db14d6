"""Experiment 2: forecasts of real curves."""
