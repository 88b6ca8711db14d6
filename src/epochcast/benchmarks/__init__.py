"""Collections of real learning curves, read into one `CurveSet`.

>>> from epochcast.benchmarks import digits_bench
>>> digits_bench("accuracy")
<CurveSet digits_bench_accuracy: 1,056 curves of 0-100 values, 12 tasks, accuracy>
"""

from epochcast.benchmarks.curveset import CurveSet
from epochcast.benchmarks.npz import digits_bench, read_npz

__all__ = ["CurveSet", "digits_bench", "read_npz"]
