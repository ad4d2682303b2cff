"""Code that several families of ops share. It has linear layers, broadcasting, windows, costs, and definitions of loop
nests.
"""
