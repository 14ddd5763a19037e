"""What the steps of a session run in: see session.py."""

import json

import bson
from bson import json_util
from bson.binary import UuidRepresentation
from pymongo import MongoClient
from pymongo.errors import BulkWriteError, OperationFailure

NOTHING = object()
NAME = "arras_session_python"
JSON = json_util.CANONICAL_JSON_OPTIONS.with_options(uuid_representation=UuidRepresentation.STANDARD)


class Session:
    """Runs steps and prints their replies."""

    def __init__(self, uri, extra):
        self.client = MongoClient(uri, serverSelectionTimeoutMS=15000, uuidRepresentation="standard")
        self.database = self.client[NAME]
        self.extra = extra

    def step(self, name, operation, error=None):
        """A step both servers run. `error`: the code it must fail with."""
        self._print({"step": name, "reply": self._run(name, operation, error)})

    def extra_step(self, name, operation, error=None, reply=NOTHING):
        """A step only Arras runs. `reply`: what it must be."""
        if not self.extra:
            return
        got = self._run(name, operation, error)
        if reply is not NOTHING and got != plain(reply):
            raise AssertionError(f"step {name}: expected {plain(reply)}, got {got}")
        self._print({"step": name, "reply": got, "extra": True})

    def _run(self, name, operation, error):
        try:
            reply = operation()
        except BulkWriteError as failure:
            reply, code = bulk_error(failure), failure.details["writeErrors"][0]["code"]
        except OperationFailure as failure:
            reply, code = {"error": failure.code}, failure.code
        else:
            code = None
        if code != error:
            raise AssertionError(f"step {name}: expected error {error}, got {code}: {plain(reply)}")
        return plain(reply)

    @staticmethod
    def _print(line):
        print(json.dumps(line, ensure_ascii=False), flush=True)


def plain(value):
    """As JSON that keeps BSON's types apart."""
    return json.loads(json_util.dumps(value, json_options=JSON))


def bulk_error(failure):
    details = failure.details
    # The twin does not report keyPattern and keyValue.
    errors = [{key: error[key] for key in ("index", "code")} for error in details["writeErrors"]]
    # Not compared: nInserted, which the twin gets wrong when a batch fails; the steps after show what was stored.
    counts = {key: details[key] for key in ("nMatched", "nModified", "nRemoved", "nUpserted")}
    return {"writeErrors": errors, **counts}


def first_batch(session, collection, options):
    reply = session.database.command({"find": collection, **options})["cursor"]
    open_cursor = reply["id"] != 0
    if open_cursor:
        session.database.command({"killCursors": collection, "cursors": [reply["id"]]})
    return {"length": len(reply["firstBatch"]), "open": open_cursor, "ns": reply["ns"]}


def get_more(session, cursor, collection):
    return session.database.command({"getMore": bson.Int64(cursor), "collection": collection})
