"""Limits numpy's matrix products to one thread, in this process and in its child processes. Import this module before
numpy.

The matrices are small: several threads are ten times slower than one, because they wait for each other, and sums of
floats would depend on the number of threads. A number of threads that the user has set is kept.
"""

import os

for _library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
