"""The ground costs, one a file. Each file registers its own; all files of this folder are loaded."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
