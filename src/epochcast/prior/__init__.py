"""Priors over learning curves: batched samplers and their densities."""
