"""Code that several families of ops share: linear layers, broadcasting, windows, costs."""
