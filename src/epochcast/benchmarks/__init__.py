"""Collections of real learning curves, read into one `CurveSet`.

>>> from epochcast.benchmarks import digits_bench
>>> digits_bench("accuracy")
<CurveSet digits_bench_accuracy: 1,056 curves of 0-100 values, 12 tasks, accuracy>
"""

from epochcast.benchmarks.collection import Collection, Skipped
from epochcast.benchmarks.curveset import CurveSet
from epochcast.benchmarks.load import load
from epochcast.benchmarks.npz import digits_bench, read_npz

__all__ = ["Collection", "CurveSet", "Skipped", "digits_bench", "load", "read_npz"]
