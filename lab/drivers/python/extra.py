"""Steps that only Arras runs, because the plaintext twin lacks what they need: see session.py."""

import bson
from harness import NAME, get_more
from pymongo import WriteConcern
from pymongo.errors import OperationFailure


def handshake(session):
    admin = session.client.admin
    limits = ["maxBsonObjectSize", "maxMessageSizeBytes", "maxWriteBatchSize", "minWireVersion", "maxWireVersion", "readOnly"]
    session.extra_step(
        "hello",
        lambda: [admin.command("hello")[name] for name in limits],
        reply=[16777216, 48000000, 100000, 0, 21, False],
    )
    session.extra_step("standalone", lambda: "msg" in admin.command("hello"), reply=False)
    session.extra_step("logical session", lambda: in_logical_session(session), reply=1)
    session.extra_step("transaction", lambda: in_transaction(session), error=20)
    session.extra_step("server status", lambda: admin.command("serverStatus")["process"], reply="arras")
    session.extra_step("parameter", lambda: admin.command("getParameter", 1, featureCompatibilityVersion=1)["featureCompatibilityVersion"]["version"], reply="7.0")
    session.extra_step("admin only", lambda: session.database.command("listDatabases"), error=13)
    session.extra_step("unacknowledged write", lambda: unacknowledged(session), reply=True)


def texts(session):
    """The twin has no text indexes: replies are MongoDB's, by its documentation and its formula of the score."""
    if not session.extra:
        return
    books = session.database.books
    score = {"$meta": "textScore"}

    def text(search):
        return {"$text": {"$search": search}}

    def found(search):
        return sorted(book["_id"] for book in books.find(text(search)))

    def ranked():
        sorted_books = books.find(text("whale sea"), {"s": score}).sort([("s", score)])
        return [[book["_id"], round(book["s"], 6)] for book in sorted_books]

    weights = {"title": 3}
    documents = [
        {"_id": 1, "title": "Whale", "body": "the white whale", "year": 1851},
        {"_id": 2, "title": "Sea", "body": "a ship hunting whales", "year": 1851},
        {"_id": 3, "title": "Ships", "body": ["white sails", "a grey sea"], "year": 1900},
    ]
    pipeline = [{"$match": text("whale sea")}, {"$addFields": {"s": score}}, {"$sort": {"s": 1}}, {"$project": {"_id": 1}}]
    step = session.extra_step
    step("text without a collection", lambda: found("whale"), error=27)
    step("text index", lambda: books.create_index([("title", "text"), ("body", "text")], weights=weights), reply="title_text_body_text")
    step("text documents", lambda: len(books.insert_many(documents).inserted_ids), reply=3)
    step("text words", lambda: found("whaling SHIP"), reply=[1, 2, 3])
    step("text phrase", lambda: found('"white whale"'), reply=[1])
    step("text denial", lambda: found("white -whale"), reply=[3])
    step("text denial alone", lambda: found("-whale"), reply=[])
    step("text beside", lambda: books.count_documents({"year": 1900, **text("sea")}), reply=1)
    step("text score", ranked, reply=[[1, 4.05], [2, 3.966667], [3, 0.75]])
    step("text score of nothing", lambda: list(books.find({}).sort([("s", score)])), error=40218)
    step("text aggregated", lambda: list(books.aggregate(pipeline)), reply=[{"_id": 3}, {"_id": 2}, {"_id": 1}])
    step("text updated", lambda: books.update_many(text("whale"), {"$set": {"body": "squid"}}).modified_count, reply=2)
    step("text found as updated", lambda: found("squid"), reply=[1, 2])
    step("text deleted", lambda: books.delete_many(text("squid")).deleted_count, reply=2)
    step("text listed", lambda: books.index_information()["title_text_body_text"]["weights"], reply={"body": 1, "title": 3})
    step("second text index", lambda: books.create_index([("year", "text")]), error=85)
    step("text index dropped", lambda: books.drop_index("title_text_body_text"))
    step("text without an index", lambda: found("ship"), error=27)
    step("text collection dropped", lambda: books.drop())


def in_logical_session(session):
    with session.client.start_session() as logical:
        session.database.in_session.insert_one({"_id": 1}, session=logical)
        return session.database.in_session.count_documents({}, session=logical)


def in_transaction(session):
    with session.client.start_session() as logical, logical.start_transaction():
        session.database.in_session.insert_one({"_id": 2}, session=logical)


def unacknowledged(session):
    collection = session.database.get_collection("silent", write_concern=WriteConcern(w=0))
    # One connection carries both, so the second command sees the first one's effect.
    acknowledged = collection.insert_one({"_id": 1}).acknowledged
    while session.database.silent.count_documents({}) == 0:
        pass
    return not acknowledged


def refusals(session):
    database = session.database
    command = database.command
    refused = 238
    session.extra_step("collation", lambda: command({"find": "c", "collation": {"locale": "sv"}}), error=refused)
    session.extra_step("simple collation", lambda: command({"find": "c", "collation": {"locale": "simple"}})["ok"], reply=1.0)
    session.extra_step("let", lambda: command({"find": "c", "let": {"a": 1}}), error=refused)
    session.extra_step("tailable", lambda: command({"find": "c", "tailable": True}), error=refused)
    session.extra_step("minimum of an index", lambda: command({"find": "c", "min": {"a": 1}}), error=refused)
    session.extra_step("update by pipeline", lambda: database.c.update_one({}, [{"$set": {"a": 1}}]), error=refused)
    session.extra_step("capped", lambda: command({"create": "c", "capped": True, "size": 100}), error=refused)
    session.extra_step("validator", lambda: command({"create": "c", "validator": {"a": 1}}), error=refused)
    session.extra_step("view", lambda: command({"create": "c", "viewOn": "d", "pipeline": []}), error=refused)
    session.extra_step("index that expires", lambda: database.c.create_index("a", expireAfterSeconds=5), error=refused)
    session.extra_step("partial index", lambda: database.c.create_index("a", partialFilterExpression={"a": 1}), error=refused)
    session.extra_step("unknown field", lambda: command({"find": "c", "nonsense": 1}), error=40415)
    session.extra_step("wrong type", lambda: command({"find": "c", "filter": 5}), error=14)
    session.extra_step("negative skip", lambda: command({"find": "c", "skip": -1}), error=51024)
    session.extra_step("bad namespace", lambda: command({"find": "a$b"}), error=73)
    session.extra_step("empty batch of writes", lambda: command({"insert": "c", "documents": []}), error=16)
    session.extra_step("no cursor option", lambda: command({"aggregate": "c", "pipeline": []}), error=9)
    session.extra_step("snapshot reads", lambda: command({"find": "c", "readConcern": {"level": "snapshot"}}), error=123)
    session.extra_step("write concern of two", lambda: command({"insert": "c", "documents": [{}], "writeConcern": {"w": 2}}), error=2)
    session.extra_step("retried write", lambda: command({"insert": "c", "documents": [{}], "txnNumber": bson.Int64(1)}), error=20)
    session.extra_step("array as id", lambda: database.c.insert_one({"_id": [1]}), error=2)
    session.extra_step("too deep", lambda: database.c.insert_one(nested(101)), error=15)
    session.extra_step("as deep as allowed", lambda: database.c.insert_one({"_id": 1, **nested(100)}).inserted_id, reply=1)
    session.extra_step("lookup", lambda: list(database.c.aggregate([{"$lookup": {"from": "d", "as": "e", "pipeline": []}}])), error=refused)
    session.extra_step("other cursor's collection", lambda: other_collection(session), error=13)


def nested(levels):
    document = {}
    for _ in range(levels - 1):
        document = {"a": document}
    return document


def other_collection(session):
    session.database.c.insert_many([{}, {}, {}])
    cursor = session.database.command({"find": "c", "batchSize": 1})["cursor"]["id"]
    return get_more(session, cursor, "d")


def explanations(session):
    people = session.database.explained
    if session.extra:
        people.insert_many([{"_id": number, "age": number} for number in range(10)])
        people.create_index("age")
    session.extra_step("explain find", lambda: explained(people.find({"age": {"$gt": 5}}).explain()), reply=[True, True])
    command = session.database.command
    for inner in [
        {"count": "explained", "query": {"age": 1}},
        {"distinct": "explained", "key": "age"},
        {"update": "explained", "updates": [{"q": {"age": 1}, "u": {"$set": {"a": 1}}}]},
        {"delete": "explained", "deletes": [{"q": {"age": 1}, "limit": 0}]},
        {"aggregate": "explained", "pipeline": [{"$match": {"age": 1}}], "cursor": {}},
    ]:
        name = next(iter(inner))
        session.extra_step(f"explain {name}", lambda inner=inner: explained(command({"explain": inner})), reply=[True, True])
    session.extra_step("nothing was run", lambda: people.count_documents({}), reply=10)
    session.extra_step(
        "count accumulator",
        lambda: list(people.aggregate([{"$match": {"age": {"$gte": 5}}}, {"$group": {"_id": None, "n": {"$count": {}}}}])),
        reply=[{"_id": None, "n": 5}],
    )
    session.extra_step("set stage", lambda: list(people.aggregate([{"$match": {"_id": 1}}, {"$set": {"b": 2}}])), reply=[{"_id": 1, "age": 1, "b": 2}])
    session.extra_step("hint", lambda: len(list(people.find({"age": 3}).hint("age_1"))), reply=1)
    session.extra_step("unknown hint", lambda: list(people.find({"age": 3}).hint("nonsense")), error=2)
    session.extra_step("update by an unknown hint", lambda: people.update_one({"age": 3}, {"$set": {"b": 1}}, hint="nonsense"), error=2)
    session.extra_step("delete by an unknown hint", lambda: people.delete_one({"_id": 3}, hint="nonsense"), error=2)
    session.extra_step("explain update by an unknown hint", lambda: command({"explain": {"update": "explained", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "hint": "nonsense"}]}}), error=2)
    session.extra_step("update by a hint", lambda: people.update_one({"age": 3}, {"$set": {"b": 1}}, hint="age_1").modified_count, reply=1)
    session.extra_step("delete by a hint", lambda: people.delete_one({"_id": 3}, hint="_id_").deleted_count, reply=1)
    session.extra_step("upsert by a hint", lambda: people.update_one({"_id": 3}, {"$set": {"age": 3}}, upsert=True, hint={"age": 1}).upserted_id, reply=3)
    session.extra_step("time limit", lambda: len(list(people.find().max_time_ms(60000))), reply=10)
    session.extra_step("key of a duplicate", lambda: duplicate_key(people), reply=[{"_id": 1}, {"_id": 1}])


def explained(reply):
    return [reply["queryPlanner"]["namespace"] == f"{NAME}.explained", "arras" in reply]


def duplicate_key(collection):
    try:
        collection.insert_one({"_id": 1})
    except OperationFailure as failure:
        return [failure.details["keyPattern"], failure.details["keyValue"]]
    raise AssertionError("a duplicate was inserted")
