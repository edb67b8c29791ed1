"""Keeping a version 2 control group off devices: a small eBPF program, assembled here and loaded by bpf(2).

The kernel asks the program at each open or mknod of a device and passes three words: access and kind, major, minor
(`struct bpf_cgroup_dev_ctx` of linux/bpf.h). No compiler and no library is needed. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence

_SYSCALL = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "riscv64": 280}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_PROG_TYPE_CGROUP_DEVICE, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI = 15, 6, 2
_LOAD_WORD, _AND, _JUMP_UNLESS_EQUAL, _MOVE, _EXIT = 0x61, 0x54, 0x55, 0xB7, 0x95
_KINDS = {"b": 1, "c": 2}
_INSTRUCTION = struct.Struct("<BBhi")


def program(denied: Sequence[str]) -> bytes:
    """The instructions that refuse `denied` (`c 195:3`, `c 195:*`) and allow all else. Pure."""
    code = [
        _instruction(_LOAD_WORD, 2, 1, 0),
        _instruction(_AND, 2, value=0xFFFF),
        _instruction(_LOAD_WORD, 3, 1, 4),
        _instruction(_LOAD_WORD, 4, 1, 8),
    ]
    for device in denied:
        kind, _, numbers = device.partition(" ")
        major, _, minor = numbers.partition(":")
        tests = [(2, _KINDS[kind]), (3, int(major))] + ([] if minor == "*" else [(4, int(minor))])
        for place, (register, value) in enumerate(tests):
            # Over the tests that are left, and the refusal of two instructions.
            skip = len(tests) - place - 1 + 2
            code.append(_instruction(_JUMP_UNLESS_EQUAL, register, offset=skip, value=value))
        code += [_instruction(_MOVE, 0, value=0), _instruction(_EXIT)]
    code += [_instruction(_MOVE, 0, value=1), _instruction(_EXIT)]
    return b"".join(code)


def deny(folder: str, denied: Sequence[str]) -> None:
    """Attach the program to a group; it goes with the group. Raises OSError."""
    loaded = _load(program(denied))
    try:
        group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _bpf(_PROG_ATTACH, struct.pack("=IIII", group, loaded, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI))
        finally:
            os.close(group)
    finally:
        os.close(loaded)


def _instruction(code: int, to: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, source << 4 | to, offset, value)


def _load(code: bytes) -> int:
    instructions = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    attributes = struct.pack(
        "=IIQQIIQII16sII",
        _PROG_TYPE_CGROUP_DEVICE, len(code) // _INSTRUCTION.size, ctypes.addressof(instructions),
        ctypes.addressof(licence), 0, 0, 0, 0, 0, b"flagplot_dev", 0, 0,
    )  # fmt: skip
    return _bpf(_PROG_LOAD, attributes)


def _bpf(command: int, attributes: bytes) -> int:
    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        raise OSError(38, f"the number of bpf(2) on {os.uname().machine} is not known")
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    found: int = libc.syscall(ctypes.c_long(number), command, buffer, len(attributes))
    if found < 0:
        wrong = ctypes.get_errno()
        raise OSError(wrong, os.strerror(wrong))
    return found
