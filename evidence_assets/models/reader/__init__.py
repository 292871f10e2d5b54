"""A reader that is trained in the lake: its network, and its training and use."""
