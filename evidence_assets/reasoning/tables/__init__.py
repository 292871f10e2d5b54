"""One table as a reader sees it: typed cells, units, headers and the words that name them."""
