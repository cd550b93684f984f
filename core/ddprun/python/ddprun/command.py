"""The commands of the wheel: each becomes the program itself, so signals, exit status and process number are the program's."""
import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

from ddprun.torch_version import TORCH_VERSION

HOME = Path(__file__).resolve().parent


def torch_folder() -> Path:
    """Where the torch of this environment lies, without importing it. Exits with one sentence if it is not the one of the build."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit(f"error: ddprun needs torch {TORCH_VERSION}, and {sys.executable} has none: pip install torch=={TORCH_VERSION}")
    version = importlib.metadata.version("torch").split("+")[0]
    if version != TORCH_VERSION:
        sys.exit(f"error: this ddprun was built with torch {TORCH_VERSION}, and {sys.executable} has torch {version}: "
                 f"pip install torch=={TORCH_VERSION}, or a ddprun that was built with torch {version}")
    return Path(spec.origin).parent


def become(program: str) -> None:
    folder = torch_folder()
    if folder.parent != HOME.parent:  # in an environment below this one: the program looks for torch beside itself
        paths = [str(folder / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        os.environ["LD_LIBRARY_PATH"] = ":".join(paths)
    os.environ["DDPRUN_PYTHON"] = sys.executable
    os.execv(HOME / "bin" / program, sys.argv)


def ddprun() -> None:
    become("ddprun")


def contract() -> None:
    become("ddprun-contract")
