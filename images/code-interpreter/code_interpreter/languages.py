"""The languages that code can be in: the kernels that are installed in the image."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

from .requests import RequestRefused

#: Variables to set; None removes one.
Variables = dict[str, "str | None"]


@dataclass(frozen=True)
class Language:
    name: str
    #: The name of the kernel's directory below share/jupyter/kernels.
    kernel: str

    def around(self, shared: Variables, env: dict[str, str], reseed: bool) -> tuple[str, str]:
        """
        Code before and after an execution that sets the sandbox's variables, and those of this execution only, and that seeds random
        numbers in a clone. The kernels of this image do all of this with the execution.
        """
        if self.name in ("python", "javascript", "typescript", "java"):
            return "", ""
        code = {"bash": _bash, "r": _r}.get(self.name)
        if code is not None:
            return code(shared, env, reseed)
        if shared or env:
            raise RequestRefused(400, f"variables cannot be set for {self.name}")
        return "", ""


def find_language(name: str) -> Language:
    kernel = "python3" if name == "python" else name
    try:
        KernelSpecManager().get_kernel_spec(kernel)
    except NoSuchKernel:
        known = sorted("python" if each == "python3" else each for each in KernelSpecManager().find_kernel_specs())
        raise RequestRefused(400, f"language {name} has no kernel in this image; it has {', '.join(known)}") from None
    return Language(name, kernel)


def _bash(shared: Variables, env: dict[str, str], reseed: bool) -> tuple[str, str]:
    def assign(name: str, value: str | None) -> str:
        return f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}"

    seeded = ["RANDOM=$SRANDOM"] if reseed else []
    lines = [assign(name, value) for name, value in shared.items()]
    saved = [f"_saved_{name}=${{{name}-}} _had_{name}=${{{name}+yes}}" for name in env]
    restored = [
        f"if [ -n \"$_had_{name}\" ]; then export {name}=\"$_saved_{name}\"; else unset {name}; fi; "
        f"unset _saved_{name} _had_{name}"
        for name in env
    ]
    return "\n".join([*seeded, *lines, *saved, *(assign(name, value) for name, value in env.items())]), "\n".join(restored)


def _r(shared: Variables, env: dict[str, str], reseed: bool) -> tuple[str, str]:
    def assign(name: str, value: str | None) -> str:
        # A string of JSON is one of R.
        return f'Sys.unsetenv("{name}")' if value is None else f"Sys.setenv({name} = {json.dumps(value, ensure_ascii=False)})"

    seeded = ["set.seed(NULL)"] if reseed else []
    lines = [assign(name, value) for name, value in shared.items()]
    saved = [f'options(saved.{name} = Sys.getenv("{name}", unset = NA))' for name in env]
    restored = [
        f'if (is.na(getOption("saved.{name}"))) Sys.unsetenv("{name}") else Sys.setenv({name} = getOption("saved.{name}"))'
        for name in env
    ]
    return "\n".join([*seeded, *lines, *saved, *(assign(name, value) for name, value in env.items())]), "\n".join(restored)
