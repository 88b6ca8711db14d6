"""Experiments of the paper and our own: each computes rows that a table or a plot shows."""
