"""Searches replayed on recorded runs: stopping rules, successive halving and freeze-thaw, in the same orders."""
