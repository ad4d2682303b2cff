"""One thread for numpy's matrix products, in this process and those that it starts; to be imported before numpy.

The matrices are small: threads that wait for each other cost ten times what they save, and sums of floats would depend
on how many there are. Who has set the number keeps it.
"""

import os

for _library in ("OPENBLAS", "MKL", "OMP"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
