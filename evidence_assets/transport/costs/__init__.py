"""The ground costs. Each file registers its own, one or several that share a bound; all files of this folder are
loaded.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
