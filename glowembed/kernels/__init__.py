"""When the kernels of each core are exact, how they pack constants, and their cost."""
