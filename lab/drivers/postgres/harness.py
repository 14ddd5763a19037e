"""What the steps of a session of PostgreSQL's Python drivers run in: a step's reply is printed as one line of JSON."""

import datetime
import decimal
import json
import sys
import uuid


def plain(value):
    """As JSON that keeps types apart."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, decimal.Decimal):
        return {"decimal": str(value)}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return {type(value).__name__: value.isoformat()}
    if isinstance(value, uuid.UUID):
        return {"uuid": str(value)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, dict):
        return {"object": [[plain(key), plain(value[key])] for key in value]}
    if isinstance(value, (list, tuple, set)) or hasattr(value, "__iter__"):
        return [plain(item) for item in value]
    raise TypeError(f"a reply of type {type(value)}")


class Session:
    """Runs steps and prints their replies. `failure(error)` gives what of a database's error is compared, or None."""

    def __init__(self, failure, extra):
        self.failure = failure
        self.extra = extra

    def step(self, name, operation, error=None):
        """A step both sides run. `error`: the SQLSTATE it must fail with."""
        reply, state = self._run(operation)
        # Through the proxy it is a step that differs, and the rest is run.
        if state != error and not self.extra:
            raise AssertionError(f"step {name}: expected error {error}, got {state}: {reply}")
        self._print({"step": name, "reply": reply})

    def refused(self, name, operation, error="0A000"):
        """A step that the proxy refuses, and plaintext does not: by this error."""
        if self.extra:
            reply, state = self._run(operation)
            self._print({"step": name, "reply": reply, "extra": state == error})

    def _run(self, operation):
        try:
            return plain(operation()), None
        except Exception as raised:
            reply = self.failure(raised)
            if reply is None:
                raise
            return reply, reply["sqlstate"]

    @staticmethod
    def _print(line):
        print(json.dumps(line, ensure_ascii=False), flush=True)


def arguments():
    """The URL, and whether steps of the proxy's own are run."""
    return sys.argv[1], "--extra" in sys.argv[2:]
