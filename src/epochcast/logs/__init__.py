"""Readers of the logs that training libraries write: CSV, JSON lines, TensorBoard, MLflow, W&B and Transformers.

>>> from epochcast.logs import read_runs
>>> print(read_runs("lightning_logs").describe())  # doctest: +SKIP
lightning_logs: 1 run (1 csv)
version_0/metrics.csv: csv, by epoch: train_loss (3), val_acc (3)
  epoch counts from 0 in the log and from 1 here: the first value belongs to step 1
"""

from epochcast.logs.csv import escape_cell
from epochcast.logs.read import Column, read_column, read_runs
from epochcast.logs.run import Findings, Run, Series, Skipped

__all__ = ["Column", "Findings", "Run", "Series", "Skipped", "escape_cell", "read_column", "read_runs"]
