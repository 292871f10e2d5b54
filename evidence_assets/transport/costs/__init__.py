"""The ground costs. Each module of this folder registers one or several costs that share a bound."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
