"""Campaigns of faults: what no list of cases written beforehand would try.

    python -m tools.campaign kill --rounds 200
    python -m tools.campaign fuzz --inputs 10000

Each tries at random from a seed, prints a table, and ends with status 1 where anything is not as it must be. What a
campaign needs of the product it takes by its own doors; nothing is added to the product for it.
"""
