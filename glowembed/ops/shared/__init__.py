"""What families of ops share: linear layers, broadcasting."""
