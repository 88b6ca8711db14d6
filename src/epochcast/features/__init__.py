"""What a streaming network reads of a run, and how its outputs are read."""
