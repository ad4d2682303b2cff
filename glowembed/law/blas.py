"""Limits numpy's matrix products to one thread, in this process and in those that it starts. Import it before numpy.

The matrices are small: threads that wait for each other cost ten times what they save, and sums of floats would depend
on how many there are. A number that the user has set is kept.
"""

import os

for _library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
