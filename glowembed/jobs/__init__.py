"""Many jobs: what was found is kept by the hash of what it was made from, and what is left to do runs here or on a cluster.

In: functions and their arguments, as data. Out: their results, the same with any number of workers. It knows no model.
"""
