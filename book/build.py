"""Builds the book (`make book`): executes the chapters in parallel, renders them strictly, checks
the pages.

Any warning, any error in a cell and any resource a page would load from elsewhere fails the build,
every time. When nothing has changed since the last success there is nothing to do.
"""

import argparse
import concurrent.futures
import importlib.metadata
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

BOOK = Path(__file__).resolve().parent
PROJECT = BOOK.parent
sys.path.insert(0, str(BOOK / "_extensions"))

import execution_cache  # noqa: E402
import page_check  # noqa: E402

HTML = BOOK / "_build" / "html"
SUCCESS = BOOK / "_build" / "last_success"
READ_BY_BUILD = ("src", "data", "book", "requirements.lock", "_config.yml", "pyproject.toml")
KERNEL_ENVIRONMENT = {
    # a kernel of the same name in the user's home would run another Python
    "JUPYTER_PREFER_ENV_PATH": "1",
    "JUPYTER_PLATFORM_DIRS": "1",
    "IPYTHONDIR": str(BOOK / "_build" / "ipython"),  # nor may the user's start-up files take part
    # nothing is written outside the project
    "JUPYTER_RUNTIME_DIR": str(BOOK / "_build" / "jupyter"),
    "MPLCONFIGDIR": str(BOOK / "_build" / "matplotlib"),
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "LEARNED_MAPPING_STATIC": "1",  # the pages have no kernel to turn knobs
    "LEARNED_MAPPING_CALIBRATION_S": "0.2",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    # of which several pages need the same
    "JAX_COMPILATION_CACHE_DIR": str(PROJECT / "build" / "jax-cache"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
}
TRAINS = (
    "mmap/agent",
    "regal/learner",
    "your-agent",
    "mmap/methods",
    "mcm/learners",
    "regal/methods",
)
"""Pages that take longest: begun first, so that no core waits for the last of them."""
KEPT_CACHES = 2


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds the book.")
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="chapters executed at a time"
    )
    parser.add_argument("--force", action="store_true", help="build even when nothing has changed")
    parser.add_argument(
        "--readme-picture", action="store_true", help="write the picture of the README, and no book"
    )
    arguments = parser.parse_args()
    if arguments.readme_picture:
        import explorables  # which takes two seconds

        picture = explorables.explorable_pictures.readme_picture(explorables.data_of("layouts"))
        (BOOK / "layouts.svg").write_text(picture)
        return 0
    start = time.perf_counter()
    digest = execution_cache.digest_of(READ_BY_BUILD)
    if (
        not arguments.force
        and (HTML / "index.html").exists()
        and SUCCESS.exists()
        and SUCCESS.read_text() == digest
    ):
        print(f"Nothing has changed since the last build. Open {HTML / 'index.html'}")
        return 0
    SUCCESS.unlink(missing_ok=True)  # a failure must not be followed by a skip
    os.environ.update(KERNEL_ENVIRONMENT)
    quiet_kernels()
    copy_mathjax()
    prune_caches()
    if not execute_chapters(arguments.jobs) or not render():
        return 1
    faults = page_check.external_resources(HTML) + page_check.broken_links(HTML)
    for fault in faults:
        print(f"book: {fault}", file=sys.stderr)
    if faults:
        return 1
    SUCCESS.write_text(digest)
    print(f"Built in {time.perf_counter() - start:.0f} s. Open {HTML / 'index.html'}")
    return 0


def quiet_kernels() -> None:
    """Keeps the kernels' advice about their transport out of the build's output."""
    profile = (
        Path(KERNEL_ENVIRONMENT["IPYTHONDIR"]) / "profile_default" / "ipython_kernel_config.py"
    )
    profile.parent.mkdir(parents=True, exist_ok=True)
    profile.write_text("get_config().IPKernelApp.log_level = 40\n")


def copy_mathjax() -> None:
    """Takes MathJax's single file out of the installed wheel: it is served with the pages, not kept
    in the sources."""
    for file in importlib.metadata.files("sphinx-mathjax-offline") or ():
        if file.name == "tex-svg.js":
            target = BOOK / "extra" / "vendor" / "mathjax" / "tex-svg.js"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.locate(), target)
            return
    raise SystemExit("book: the package sphinx-mathjax-offline has no tex-svg.js")


def prune_caches() -> None:
    """Drops the outputs of older code, but for the latest."""
    folder = execution_cache.cache_path().parent
    old = sorted(
        (p for p in folder.glob("*") if p.is_dir()), key=lambda p: p.stat().st_mtime, reverse=True
    )
    for path in old[KEPT_CACHES:]:
        shutil.rmtree(path, ignore_errors=True)


def chapters() -> list[Path]:
    """The text notebooks among the pages."""
    paths = sorted(
        path
        for path in BOOK.rglob("*.md")
        if not {"_build", ".ipynb_checkpoints"} & set(path.parts)
    )
    return [path for path in paths if "\nkernelspec:" in path.read_text(encoding="utf-8")[:1000]]


def execute_chapters(jobs: int) -> bool:
    """Executes the chapters whose output is not cached, those that train first; returns whether all
    succeeded."""
    import explorables
    from jupyter_cache import get_cache

    cache_path = execution_cache.cache_path()
    cache_path.mkdir(parents=True, exist_ok=True)
    get_cache(str(cache_path)).db  # noqa: B018  (makes the database before several processes want to)
    failed = False
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max(jobs, 1), mp_context=context) as pool:
        futures = {pool.submit(explorables.data_of, name): name for name in explorables.SCRIPTS}
        order = sorted(
            chapters(),
            key=lambda path: path.relative_to(BOOK).with_suffix("").as_posix() not in TRAINS,
        )
        pending = {pool.submit(execute_chapter, path, cache_path): path for path in order}
        for future in concurrent.futures.as_completed(futures):
            future.result()
        for done, future in enumerate(concurrent.futures.as_completed(pending), 1):
            name = pending[future].relative_to(BOOK)
            seconds, fault = future.result()
            if fault:
                failed = True
                print(f"book: {name}: failed\n{fault}", file=sys.stderr)
            else:
                print(
                    f"  {done} of {len(pending)}, {name}:"
                    f" {f'executed in {seconds:.0f} s' if seconds else 'cached'}",
                    flush=True,
                )
    return not failed


def execute_chapter(path: Path, cache_path: Path) -> tuple[float, str]:
    """Executes one chapter into the cache; returns (seconds, the traceback of a cell that failed or
    nothing)."""
    from jupyter_cache import get_cache
    from jupyter_cache.base import CacheBundleIn
    from jupyter_cache.executors.utils import single_nb_execution
    from myst_nb.core.read import myst_nb_reader_plugin

    cache = get_cache(str(cache_path))
    notebook = myst_nb_reader_plugin(str(path))
    try:
        cache.match_cache_notebook(notebook)
        return 0.0, ""
    except KeyError:
        pass
    result = single_nb_execution(notebook, cwd=str(path.parent), timeout=900, allow_errors=False)
    if result.err is not None:
        return result.time, result.exc_string
    bundle = CacheBundleIn(notebook, str(path), data={"execution_seconds": result.time})
    cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    return result.time, ""


def render() -> bool:
    """Renders every page anew, so that a warning shows each time; returns whether there was
    none."""
    shutil.rmtree(HTML, ignore_errors=True)
    shutil.rmtree(BOOK / "_build" / ".doctrees", ignore_errors=True)
    command = [
        str(Path(sys.executable).parent / "jupyter-book"),
        "build",
        "book",
        "--path-output",
        "book",
    ]
    command += ["--config", "_config.yml", "-n", "-W", "--keep-going", "--all", "-q"]
    return subprocess.run(command, cwd=PROJECT).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
