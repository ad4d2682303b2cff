"""Runs many jobs, here or on a cluster. Results are stored under the hash of what they were made from, and only the
remaining jobs are run.

In: functions and their arguments, as data. Out: their results, which do not depend on the number of workers. It knows
no model.
"""
