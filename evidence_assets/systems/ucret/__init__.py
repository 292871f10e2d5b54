"""UCRET and UCRET-JS: claims and questions answered from the columns of a table that bear on them."""
