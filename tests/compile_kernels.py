"""Compiles the scheduler's kernels for the tests, so that no two of their processes do so at the same time."""

from __future__ import annotations

from support.kernels import one_cache


def main() -> None:
    one_cache()
    from flagplotd.sched.warmup import compile_all

    compile_all(lambda what, done, total: None)


if __name__ == "__main__":
    main()
