"""What the tests in Python share."""
import importlib
import os
import sys
import tempfile
from pathlib import Path


def own_folder(test):
    """A folder that goes with the test, or with the class of tests."""
    temporary = tempfile.TemporaryDirectory()
    (test.addClassCleanup if isinstance(test, type) else test.addCleanup)(temporary.cleanup)
    return Path(temporary.name)


def imported(name, venv):
    """The module. Where this Python lacks it, the program begins again under that of `venv`, PyTorch's virtual environment, if it is
    another one. None: neither has it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        python = Path(venv) / "bin/python"
        if python.exists() and Path(sys.prefix) != Path(venv):
            os.execv(python, [str(python), *sys.argv])
        return None


def torch_or_skip(venv):
    """The module torch, as imported(); without it the test is skipped, with the reason."""
    torch = imported("torch", venv)
    if torch is None:
        print(f"skipped: {sys.executable} has no torch, and there is none in {venv} (scripts/setup.sh --with-bench)")
        sys.exit(77)
    return torch


def fetched(name, site):
    """A module that set-up puts into the folder `site`; without it the test is skipped, with the reason."""
    sys.path.insert(0, site)
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        print(f"skipped: {missing}; scripts/setup.sh --with-tests fetches it")
        sys.exit(77)


def byte_characters():
    """GPT-2's characters of the bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    beyond = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(beyond)) for byte in range(256)]
