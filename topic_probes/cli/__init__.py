"""The command line: parse, call, write. Results go to stdout, everything else to stderr.

Exit codes: 0; 2 for a wrong call or input (one line that says what to do); 1 for a failure; 130 when it was stopped
(Ctrl-C, or a polite kill).
"""

from __future__ import annotations

from ._main import FAILURE, OK, STOPPED, WRONG_CALL, app, main

__all__ = ["FAILURE", "OK", "STOPPED", "WRONG_CALL", "app", "main"]
