"""In place of an SSH server: speaks PAM by the system's own library, then becomes the login.

`python pam_login.py FOLDER SERVICE USER`: FOLDER holds the service's file. Prints one line, `in` or `PHASE CODE WORDS`
(the codes of pam(3)), and sleeps when it is in.
"""

from __future__ import annotations

import ctypes
import os
import sys

PAM_CONV_ERR, PAM_SUCCESS = 19, 0
PHASES = (("account", "pam_acct_mgmt"), ("session", "pam_open_session"))


class Message(ctypes.Structure):
    """`struct pam_message`."""

    _fields_ = [("style", ctypes.c_int), ("text", ctypes.c_char_p)]


class Answer(ctypes.Structure):
    """`struct pam_response`."""

    _fields_ = [("text", ctypes.c_void_p), ("code", ctypes.c_int)]


CONVERSE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.POINTER(Message)), ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)  # fmt: skip


class Conversation(ctypes.Structure):
    """`struct pam_conv`."""

    _fields_ = [("function", CONVERSE), ("data", ctypes.c_void_p)]


def login(folder: str, service: str, user: str) -> str:
    """Go through the phases; what to print."""
    said: list[str] = []
    libc = ctypes.CDLL(None)
    libc.calloc.restype = ctypes.c_void_p

    def converse(count: int, messages: object, answers: object, _data: object) -> int:
        said.extend(messages[number].contents.text.decode().strip() for number in range(count))  # type: ignore[index]
        # The caller frees what it gets.
        answers[0] = libc.calloc(count, ctypes.sizeof(Answer))  # type: ignore[index]
        return PAM_SUCCESS if answers[0] else PAM_CONV_ERR  # type: ignore[index]

    pam = ctypes.CDLL("libpam.so.0")
    conversation = Conversation(CONVERSE(converse), None)
    handle = ctypes.c_void_p()
    begun = pam.pam_start_confdir(
        service.encode(), user.encode(), ctypes.byref(conversation), folder.encode(), ctypes.byref(handle)
    )
    if begun != PAM_SUCCESS:
        return f"start {begun}"
    for phase, function in PHASES:
        code = getattr(pam, function)(handle, 0)
        if code != PAM_SUCCESS:
            return f"{phase} {code} {' '.join(said)}"
    return "in"


if __name__ == "__main__":
    line = login(*sys.argv[1:4])
    print(line, flush=True)
    if line == "in":
        os.execvp("sleep", ["sleep", "312.25"])
