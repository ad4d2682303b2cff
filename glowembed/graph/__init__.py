"""The data that stages exchange (graph, plan, target), and the contracts of ops and kernels."""
