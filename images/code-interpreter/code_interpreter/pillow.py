"""Shows a picture that code saves to a file with Pillow, as E2B's image does."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from typing import Any, Callable

from IPython.display import display


class PillowFinder:
    """Waits for the import of Pillow, which takes longer than the start of a kernel should."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != "PIL.Image":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            module.Image.save = _shown(module.Image.save)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _shown(save: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(save)
    def save_and_show(image: Any, file: Any, *args: Any, **options: Any) -> None:
        save(image, file, *args, **options)
        # Other code saves to buffers, such as the one that shows a picture.
        if isinstance(file, (str, os.PathLike)):
            display(image)

    return save_and_show
