"""The simple selectors that every system is compared with."""
