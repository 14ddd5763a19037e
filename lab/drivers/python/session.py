"""A session of operations through PyMongo: `session.py URI [--extra]`.

Prints one line of JSON a step: {"step": name, "reply": ...}. Replies hold no times, generated ids or fields that
differ between servers, so the lines of two servers can be compared one by one. With `--extra` it also runs steps
that need what the plaintext twin (mongo-java-server) lacks: `hello`, logical sessions, `explain`, the `$count`
accumulator, the refusals of what Arras does not support; those lines carry "extra": true and are checked here.

An operation that fails where it should not, or does not fail where it should, ends the script with status 1.
Results whose order MongoDB leaves open are sorted; texts of error messages are left out, codes are not.
"""

import datetime
import hashlib
import io
import sys
import uuid

import bson
import gridfs
from extra import explanations, handshake, refusals, texts
from harness import NAME, Session, first_batch, get_more
from pymongo import (
    ASCENDING,
    DESCENDING,
    DeleteMany,
    DeleteOne,
    IndexModel,
    InsertOne,
    ReplaceOne,
    ReturnDocument,
    UpdateMany,
    UpdateOne,
)

FILE = bson.ObjectId("64b7f0a1c2d3e4f506172839")
# Beyond a batch of replies, and not whole chunks.
FILE_BYTES = 40_000_003


def update_result(result):
    return {"matched": result.matched_count, "modified": result.modified_count, "upserted": result.upserted_id}


def bulk_result(result):
    return {
        "inserted": result.inserted_count,
        "matched": result.matched_count,
        "modified": result.modified_count,
        "deleted": result.deleted_count,
        "upserted": result.upserted_ids,
    }


def by_id(documents):
    return sorted(documents, key=lambda document: str(document["_id"]))


PEOPLE = [
    {"_id": 1, "name": "Ada", "age": 36, "city": "London", "tags": ["math", "code"], "score": 9.5},
    {"_id": 2, "name": "Grace", "age": 85, "city": "New York", "tags": ["code", "navy"], "score": 9.0},
    {"_id": 3, "name": "Edsger", "age": 72, "city": "Rotterdam", "tags": ["math"], "score": 8.5},
    {"_id": 4, "name": "Barbara", "age": 30, "city": "London", "tags": [], "score": 7.25},
    {"_id": 5, "name": "Kurt", "age": 71, "city": "Brno", "score": None},
    {"_id": 6, "name": "Åsa", "age": 41, "city": "Göteborg", "tags": ["日本語", "emoji 🎈"], "score": 8.5},
    {"_id": 7, "name": "Zuse", "age": 85, "city": "Berlin", "address": {"street": "Methfesselstr.", "number": 7}},
    {"_id": 8, "name": "Hedy", "age": 86, "address": {"street": "Opernring", "number": 12, "floor": 3}},
]


def inserts(session):
    people = session.database.people
    session.step("drop what was there", lambda: session.client.drop_database(NAME))
    session.step("insert one", lambda: people.insert_one(PEOPLE[0]).inserted_id)
    session.step("insert many", lambda: people.insert_many(PEOPLE[1:]).inserted_ids)
    session.step("insert makes an id", lambda: type(people.insert_one({"name": "nobody"}).inserted_id).__name__)
    session.step("remove it", lambda: people.delete_one({"name": "nobody"}).deleted_count)
    session.step("insert a taken id", lambda: people.insert_one({"_id": 3}), error=11000)
    session.step(
        "ordered insert stops",
        lambda: people.insert_many([{"_id": 20}, {"_id": 1}, {"_id": 21}]),
        error=11000,
    )
    session.step(
        "unordered insert goes on",
        lambda: people.insert_many([{"_id": 22}, {"_id": 1}, {"_id": 23}, {"_id": 2}], ordered=False),
        error=11000,
    )
    session.step("what they left", lambda: list(people.find({"_id": {"$gte": 20}}).sort("_id")))
    session.step("clean up", lambda: people.delete_many({"_id": {"$gte": 20}}).deleted_count)
    session.step("id first in storage", lambda: id_order(session.database.order))


def id_order(collection):
    raw = bson.SON([("b", 1), ("a", 2), ("_id", 9), ("c", 3)])
    collection.insert_one(raw)
    return list(collection.find_one({"_id": 9}))


FILTERS = {
    "all": {},
    "equal": {"city": "London"},
    "equal and equal": {"city": "London", "age": 36},
    "number across types": {"age": 85.0},
    "greater": {"age": {"$gt": 71}},
    "range": {"age": {"$gte": 36, "$lt": 72}},
    "less or equal": {"score": {"$lte": 8.5}},
    "not equal": {"city": {"$ne": "London"}},
    "in": {"_id": {"$in": [1, 3, 99]}},
    "not in": {"city": {"$nin": ["London", "Berlin"]}},
    "null or missing": {"score": None},
    "exists": {"score": {"$exists": True}},
    "exists not": {"address": {"$exists": False}},
    "type by name": {"score": {"$type": "double"}},
    "type by number": {"name": {"$type": 2}},
    "or": {"$or": [{"age": {"$lt": 35}}, {"city": "Berlin"}]},
    "and": {"$and": [{"age": {"$gt": 35}}, {"age": {"$lt": 73}}]},
    "nor": {"$nor": [{"city": "London"}, {"age": {"$gt": 80}}]},
    "not": {"age": {"$not": {"$gt": 40}}},
    "array element": {"tags": "math"},
    "whole array": {"tags": ["math", "code"]},
    "array all": {"tags": {"$all": ["code", "math"]}},
    "array size": {"tags": {"$size": 0}},
    "array offset": {"tags.0": "code"},
    "element match": {"tags": {"$elemMatch": {"$gte": "n", "$lt": "o"}}},
    "dotted": {"address.number": {"$gt": 5}},
    "sub-document": {"address": {"street": "Methfesselstr.", "number": 7}},
    "regular expression": {"name": {"$regex": "^[A-C]"}},
    "regular expression option": {"name": {"$regex": "^ada$", "$options": "i"}},
    "modulo": {"age": {"$mod": [5, 0]}},
    "expression": {"$expr": {"$gt": ["$age", 80]}},
    "unicode": {"tags": "日本語"},
    "of another type": {"age": "36"},
    "nothing": {"nonsense": 1},
}


def finds(session):
    people = session.database.people
    for name, query in FILTERS.items():
        session.step(f"find {name}", lambda query=query: list(people.find(query).sort("_id")))
    session.step("find one", lambda: people.find_one({"age": 72}))
    session.step("find one, none", lambda: people.find_one({"age": -1}))
    session.step("sort descending", lambda: list(people.find({}, {"age": 1}).sort([("age", -1), ("_id", 1)])))
    session.step("sort with null", lambda: list(people.find({}, {"score": 1}).sort([("score", 1), ("_id", 1)])))
    session.step("sort by array", lambda: list(people.find({}, {"tags": 1}).sort([("tags", 1), ("_id", 1)])))
    session.step("sort dotted", lambda: list(people.find({}, {"_id": 1}).sort([("address.number", -1), ("_id", 1)])))
    session.step("skip and limit", lambda: list(people.find({}, {"name": 1}).sort("_id", 1).skip(2).limit(3)))
    session.step("skip past the end", lambda: list(people.find().sort("_id").skip(100)))
    session.step("negative limit", lambda: list(people.find({}, {"_id": 1}).sort("_id").limit(-2)))
    session.step("include", lambda: list(people.find({"_id": {"$lte": 2}}, {"name": 1, "city": 1}).sort("_id")))
    session.step("exclude", lambda: list(people.find({"_id": {"$lte": 2}}, {"tags": 0, "score": 0}).sort("_id")))
    session.step("without id", lambda: list(people.find({"_id": 1}, {"_id": 0, "name": 1})))
    session.step("include dotted", lambda: list(people.find({"_id": 8}, {"address.street": 1})))
    session.step("exclude dotted", lambda: list(people.find({"_id": 8}, {"address.floor": 0})))
    # The twin leaves out the other fields.
    session.extra_step(
        "slice",
        lambda: list(people.find({"_id": 1}, {"tags": {"$slice": 1}})),
        reply=[{**PEOPLE[0], "tags": ["math"]}],
    )
    # The twin projects matches only among documents.
    session.extra_step(
        "project a match",
        lambda: list(people.find({"_id": 1}, {"tags": {"$elemMatch": {"$eq": "code"}}})),
        reply=[{"_id": 1, "tags": ["code"]}],
    )
    # The twin answers 31253, MongoDB's code for the other way round.
    session.extra_step("mixed projection", lambda: list(people.find({}, {"name": 1, "city": 0})), error=31254)
    session.step("unknown operator", lambda: list(people.find({"a": {"$nonsense": 1}})), error=2)
    session.step("count", lambda: people.count_documents({"age": {"$gt": 40}}))
    session.step("count with skip and limit", lambda: people.count_documents({}, skip=2, limit=4))
    session.step("estimated count", lambda: people.estimated_document_count())
    session.step("distinct", lambda: sorted(people.distinct("city")))
    session.step("distinct array", lambda: sorted(people.distinct("tags")))
    session.step("distinct with filter", lambda: sorted(people.distinct("age", {"city": "London"})))
    session.step("distinct nothing", lambda: people.distinct("nonsense"))


def cursors(session):
    many = session.database.many
    session.step("insert 1000", lambda: len(many.insert_many([{"_id": i, "n": i % 10} for i in range(1000)]).inserted_ids))
    session.step("several batches", lambda: sum(d["_id"] for d in many.find().batch_size(70)))
    session.step("default batches", lambda: sum(1 for _ in many.find()))
    session.step("batch of one", lambda: [d["_id"] for d in many.find({"n": 3}).sort("_id").batch_size(2).limit(9)])
    session.step("limit over a batch", lambda: len(list(many.find().batch_size(50).limit(120))))
    session.step("limit of a batch", lambda: len(list(many.find().batch_size(50).limit(50))))
    session.step("exactly the batches", lambda: len(list(many.find({"_id": {"$lt": 100}}).batch_size(50))))
    session.step("first batch", lambda: first_batch(session, many.name, {"batchSize": 3, "sort": {"_id": 1}}))
    # The twin takes a batch of zero documents for one of all.
    session.extra_step(
        "empty first batch",
        lambda: first_batch(session, many.name, {"batchSize": 0}),
        reply={"length": 0, "open": True, "ns": f"{NAME}.many"},
    )
    session.step("single batch", lambda: first_batch(session, many.name, {"limit": 5, "singleBatch": True}))
    session.step("no such collection", lambda: list(session.database.nowhere.find()))
    session.step("unknown cursor", lambda: get_more(session, 12345, many.name), error=43)
    session.step("closed cursor", lambda: closed_cursor(session, many))
    session.step("big documents", lambda: big_documents(session.database.big))


def closed_cursor(session, collection):
    reply = session.database.command({"find": collection.name, "batchSize": 2})["cursor"]
    killed = session.database.command({"killCursors": collection.name, "cursors": [reply["id"]]})
    return {"killed": len(killed["cursorsKilled"])}


def big_documents(collection):
    """Documents of 6 MB, so that one batch cannot hold all."""
    for number in range(4):
        collection.insert_one({"_id": number, "text": chr(65 + number) * 6_000_000})
    found = [(d["_id"], len(d["text"]), d["text"][0]) for d in collection.find().sort("_id")]
    collection.drop()
    return found


UPDATES = [
    ("set", {"_id": 1}, {"$set": {"city": "Ockham", "born.year": 1815}}),
    ("set the same", {"_id": 1}, {"$set": {"city": "Ockham"}}),
    ("unset", {"_id": 1}, {"$unset": {"born": ""}}),
    ("increment", {"_id": 1}, {"$inc": {"age": 1, "visits": 5}}),
    ("increment by a double", {"_id": 1}, {"$inc": {"visits": 0.5}}),
    ("multiply", {"_id": 2}, {"$mul": {"age": 2}}),
    ("minimum", {"_id": 2}, {"$min": {"age": 90}}),
    ("maximum", {"_id": 2}, {"$max": {"score": 9.75}}),
    ("rename", {"_id": 3}, {"$rename": {"city": "town"}}),
    ("push", {"_id": 3}, {"$push": {"tags": "structure"}}),
    ("push each, sort, slice", {"_id": 3}, {"$push": {"tags": {"$each": ["b", "a"], "$sort": 1, "$slice": 3}}}),
    ("push at a position", {"_id": 3}, {"$push": {"tags": {"$each": ["first"], "$position": 0}}}),
    ("add to set", {"_id": 3}, {"$addToSet": {"tags": "a"}}),
    ("add each to set", {"_id": 3}, {"$addToSet": {"tags": {"$each": ["a", "z"]}}}),
    ("pop", {"_id": 3}, {"$pop": {"tags": 1}}),
    ("pop first", {"_id": 3}, {"$pop": {"tags": -1}}),
    ("pull", {"_id": 3}, {"$pull": {"tags": "a"}}),
    ("pull all", {"_id": 2}, {"$pullAll": {"tags": ["navy", "x"]}}),
    ("positional", {"_id": 1, "tags": "code"}, {"$set": {"tags.$": "CODE"}}),
    ("nobody", {"_id": 99}, {"$set": {"a": 1}}),
]


def apply_all(collection, document, *changes):
    collection.insert_one(document)
    for change in changes:
        collection.update_one({"_id": document["_id"]}, change)
    changed = collection.find_one()
    collection.drop()
    return changed


def updates(session):
    people = session.database.people
    for name, query, change in UPDATES:
        session.step(f"update {name}", lambda q=query, c=change: update_result(people.update_one(q, c)))
    # The twin has no $bit.
    bits = [{"_id": 1, "n": 13}, {"$bit": {"n": {"and": 10}}}, {"$bit": {"n": {"or": 5}}}, {"$bit": {"n": {"xor": 1}}}]
    session.extra_step("update bits", lambda: apply_all(session.database.bits, *bits), reply={"_id": 1, "n": 12})
    session.step("after the updates", lambda: list(people.find({"_id": {"$lte": 4}}).sort("_id")))
    session.step("update many", lambda: update_result(people.update_many({"age": {"$gt": 70}}, {"$set": {"old": True}})))
    session.step("replace", lambda: update_result(people.replace_one({"_id": 5}, {"name": "Gödel", "age": 71})))
    session.step("replaced", lambda: people.find_one({"_id": 5}))
    session.step(
        "array filters",
        lambda: update_result(
            people.update_one({"_id": 6}, {"$set": {"tags.$[t]": "x"}}, array_filters=[{"t": "日本語"}])
        ),
    )
    session.step("after the array filters", lambda: people.find_one({"_id": 6}))
    session.step(
        "upsert inserts",
        lambda: update_result(
            people.update_one(
                {"_id": 30, "kind": "new"}, {"$set": {"a": 1}, "$setOnInsert": {"b": 2}, "$inc": {"n": 3}}, upsert=True
            )
        ),
    )
    session.step("upserted", lambda: people.find_one({"_id": 30}))
    session.step(
        "upsert updates",
        lambda: update_result(people.update_one({"_id": 30}, {"$setOnInsert": {"b": 9}, "$inc": {"n": 1}}, upsert=True)),
    )
    session.step("upsert by replacement", lambda: update_result(people.replace_one({"_id": 31}, {"x": 1}, upsert=True)))
    session.step("upserts", lambda: list(people.find({"_id": {"$gte": 30}}).sort("_id")))
    session.step("increment a string", lambda: people.update_one({"_id": 1}, {"$inc": {"name": 1}}), error=14)
    session.step("change the id", lambda: people.update_one({"_id": 1}, {"$set": {"_id": 2}}), error=66)
    session.step("conflicting operators", lambda: people.update_one({"_id": 1}, {"$set": {"a": 1}, "$inc": {"a": 1}}), error=40)
    session.step("unknown operator in update", lambda: people.update_one({"_id": 1}, {"$nonsense": {"a": 1}}), error=9)
    session.step("push to a string", lambda: people.update_one({"_id": 1}, {"$push": {"name": 1}}), error=2)


def finds_and_modifies(session):
    people = session.database.people
    before, after = ReturnDocument.BEFORE, ReturnDocument.AFTER
    session.step("find and update", lambda: people.find_one_and_update({"_id": 7}, {"$inc": {"age": 1}}, return_document=before))
    session.step("and return the new", lambda: people.find_one_and_update({"_id": 7}, {"$inc": {"age": 1}}, return_document=after))
    session.step(
        "by order, projected",
        lambda: people.find_one_and_update(
            {"_id": {"$lte": 8}}, {"$set": {"first": True}}, {"name": 1, "first": 1}, sort=[("age", 1)], return_document=after
        ),
    )
    session.step("find and update none", lambda: people.find_one_and_update({"_id": 77}, {"$set": {"a": 1}}))
    session.step(
        "find and upsert",
        lambda: people.find_one_and_update({"_id": 78}, {"$set": {"a": 1}}, upsert=True, return_document=after),
    )
    session.step("find and replace", lambda: people.find_one_and_replace({"_id": 78}, {"b": 2}, return_document=after))
    session.step("find and delete", lambda: people.find_one_and_delete({"_id": 78}))
    session.step("find and delete none", lambda: people.find_one_and_delete({"_id": 78}))


def bulk(session):
    things = session.database.things
    session.step(
        "bulk write",
        lambda: bulk_result(
            things.bulk_write(
                [
                    InsertOne({"_id": 1, "n": 1}),
                    InsertOne({"_id": 2, "n": 2}),
                    UpdateOne({"_id": 1}, {"$inc": {"n": 10}}),
                    UpdateMany({}, {"$set": {"seen": True}}),
                    ReplaceOne({"_id": 3}, {"n": 3}, upsert=True),
                    DeleteOne({"_id": 2}),
                    DeleteMany({"n": 999}),
                ]
            )
        ),
    )
    session.step(
        "bulk write that fails",
        lambda: things.bulk_write([InsertOne({"_id": 4}), InsertOne({"_id": 1}), InsertOne({"_id": 5})]),
        error=11000,
    )
    session.step("after the bulk writes", lambda: list(things.find().sort("_id")))


def indexes(session):
    people, users = session.database.people, session.database.users
    session.step("create an index", lambda: people.create_index("age"))
    session.step("create it again", lambda: people.create_index("age"))
    session.step("create a compound index", lambda: people.create_index([("city", ASCENDING), ("age", DESCENDING)]))
    session.step("indexes", lambda: index_list(people))
    session.step("find by the index", lambda: by_id(people.find({"age": {"$gt": 80}}, {"age": 1})))
    session.step("sort by the index", lambda: [d["_id"] for d in people.find({"city": "London"}).sort("age", -1)])
    session.step("drop an index", lambda: people.drop_index("age_1"))
    session.step("drop an unknown index", lambda: people.drop_index("nonsense"), error=27)
    session.step("drop all indexes", lambda: people.drop_indexes())
    session.step("indexes left", lambda: index_list(people))
    session.step("insert users", lambda: users.insert_many([{"_id": 1, "mail": "a"}, {"_id": 2, "mail": "b"}]).inserted_ids)
    session.step("create a unique index", lambda: users.create_index("mail", unique=True, name="mails"))
    session.step("violate it", lambda: users.insert_one({"_id": 3, "mail": "a"}), error=11000)
    session.step("violate it by update", lambda: users.update_one({"_id": 2}, {"$set": {"mail": "a"}}), error=11000)
    session.step("one null", lambda: users.insert_one({"_id": 4}).inserted_id)
    session.step("another null", lambda: users.insert_one({"_id": 5, "mail": None}), error=11000)
    session.step("free the value", lambda: users.delete_one({"_id": 1}).deleted_count)
    session.step("take it", lambda: users.insert_one({"_id": 6, "mail": "a"}).inserted_id)
    session.step("users", lambda: list(users.find().sort("_id")))
    session.step("unique over duplicates", lambda: people.create_index("old", unique=True), error=11000)
    session.step("create two", lambda: users.create_indexes([IndexModel("x"), IndexModel("y", sparse=True)]))


def index_list(collection):
    indexes = [{"name": i["name"], "key": list(i["key"].items()), "unique": i.get("unique", False)} for i in collection.list_indexes()]
    return sorted(indexes, key=lambda index: index["name"])


SALES = [
    {"_id": 1, "item": "abc", "price": 10, "quantity": 2, "when": datetime.datetime(2024, 3, 1), "colors": ["red", "blue"]},
    {"_id": 2, "item": "jkl", "price": 20, "quantity": 1, "when": datetime.datetime(2024, 3, 1), "colors": ["red"]},
    {"_id": 3, "item": "xyz", "price": 5, "quantity": 10, "when": datetime.datetime(2024, 3, 15), "colors": []},
    {"_id": 4, "item": "xyz", "price": 5.5, "quantity": 20, "when": datetime.datetime(2024, 4, 4)},
    {"_id": 5, "item": "abc", "price": 10, "quantity": 10, "when": datetime.datetime(2025, 4, 4), "colors": "green"},
]

PIPELINES = {
    "match": [{"$match": {"item": "abc"}}, {"$sort": {"_id": 1}}],
    "sort skip limit": [{"$sort": {"price": -1, "_id": 1}}, {"$skip": 1}, {"$limit": 2}],
    "limit then skip": [{"$sort": {"_id": 1}}, {"$limit": 3}, {"$skip": 2}],
    "limit then match": [{"$sort": {"_id": 1}}, {"$limit": 3}, {"$match": {"item": "xyz"}}],
    "project": [{"$sort": {"_id": 1}}, {"$project": {"item": 1, "total": {"$multiply": ["$price", "$quantity"]}}}],
    "add fields": [{"$match": {"_id": 1}}, {"$addFields": {"double": {"$add": ["$price", "$price"]}}}],
    "unset": [{"$match": {"_id": 1}}, {"$unset": ["colors", "when"]}],
    "group": [
        {"$group": {"_id": "$item", "sum": {"$sum": "$quantity"}, "average": {"$avg": "$price"}, "count": {"$sum": 1}}},
        {"$sort": {"_id": 1}},
    ],
    "group all": [{"$group": {"_id": None, "sum": {"$sum": "$quantity"}, "average": {"$avg": "$price"}, "n": {"$sum": 1}}}],
    "group matched": [{"$match": {"item": "abc"}}, {"$group": {"_id": None, "sum": {"$sum": "$price"}}}],
    "group nothing": [{"$match": {"item": "none"}}, {"$group": {"_id": None, "sum": {"$sum": "$price"}}}],
    "group by two": [
        {"$group": {"_id": {"item": "$item", "year": {"$year": "$when"}}, "max": {"$max": "$quantity"}, "min": {"$min": "$quantity"}}},
        {"$sort": {"_id.item": 1, "_id.year": 1}},
    ],
    "group first last push": [
        {"$sort": {"_id": 1}},
        {"$group": {"_id": "$item", "first": {"$first": "$_id"}, "last": {"$last": "$_id"}, "all": {"$push": "$quantity"}}},
        {"$sort": {"_id": 1}},
    ],
    "count": [{"$match": {"price": {"$gt": 5}}}, {"$count": "dear"}],
    "count nothing": [{"$match": {"price": {"$gt": 500}}}, {"$count": "dear"}],
    "unwind": [{"$unwind": "$colors"}, {"$sort": {"_id": 1, "colors": 1}}, {"$project": {"colors": 1}}],
    "unwind and keep": [
        {"$unwind": {"path": "$colors", "preserveNullAndEmptyArrays": True}},
        {"$sort": {"_id": 1, "colors": 1}},
        {"$project": {"colors": 1}},
    ],
    "replace root": [{"$match": {"_id": 2}}, {"$replaceRoot": {"newRoot": {"is": "$item"}}}],
    "sort by count": [{"$match": {"item": {"$ne": "jkl"}}}, {"$sortByCount": {"$gt": ["$price", 7]}}, {"$sort": {"_id": 1}}],
    "facet": [{"$facet": {"cheap": [{"$match": {"price": {"$lt": 6}}}, {"$count": "n"}], "all": [{"$count": "n"}]}}],
    "conditional": [
        {"$sort": {"_id": 1}},
        {"$project": {"size": {"$cond": [{"$gte": ["$quantity", 10]}, "large", "small"]}}},
    ],
    "strings": [
        {"$match": {"_id": 1}},
        {"$project": {"upper": {"$toUpper": "$item"}, "joined": {"$concat": ["$item", "-", "x"]}}},
    ],
}


def aggregations(session):
    sales = session.database.sales
    session.step("insert sales", lambda: sales.insert_many(SALES).inserted_ids)
    for name, pipeline in PIPELINES.items():
        session.step(f"aggregate {name}", lambda pipeline=pipeline: list(sales.aggregate(pipeline)))
    session.step("aggregate in batches", lambda: sum(d["_id"] for d in session.database.many.aggregate([{"$match": {"n": 1}}], batchSize=7)))
    session.step("unknown stage", lambda: list(sales.aggregate([{"$nonsense": {}}])), error=40324)
    session.step("aggregate no such collection", lambda: list(session.database.nowhere.aggregate([{"$group": {"_id": None}}])))


def all_types():
    return {
        "_id": bson.ObjectId("5f5f5f5f5f5f5f5f5f5f5f5f"),
        "double": 1.5,
        "negative zero": -0.0,
        "infinite": float("inf"),
        "string": "a\u0000b ☃ \U0001f388",
        "document": {"a": {"b": {"c": 1}}},
        "array": [1, "two", [3, [4]], {"five": 5}],
        "binary": bson.Binary(b"\x00\x01\xff"),
        "uuid": uuid.UUID("12345678-1234-5678-1234-567812345678"),
        "true": True,
        "false": False,
        "date": datetime.datetime(1969, 12, 31, 23, 59, 59, 999000),
        "null": None,
        "regex": bson.Regex("^a.*b$", "im"),
        "code": bson.Code("function() {}"),
        "int32": -(2**31),
        "int64": bson.Int64(2**63 - 1),
        "timestamp": bson.Timestamp(1700000000, 7),
        "decimal": bson.Decimal128("1234567890.0123456789"),
        "min": bson.MinKey(),
        "max": bson.MaxKey(),
        "empty document": {},
        "empty array": [],
        "empty string": "",
        "": "empty name",
    }


def types(session):
    kinds = session.database.types
    document = all_types()
    session.step("insert all types", lambda: kinds.insert_one(document).inserted_id)
    session.step("read all types", lambda: kinds.find_one())
    session.step("order of all fields", lambda: list(kinds.find_one()))
    for name in ["double", "string", "uuid", "date", "int64", "timestamp", "decimal", "document", "array"]:
        session.step(f"find by {name}", lambda name=name: kinds.count_documents({name: document[name]}))
    # The twin closes the connection on some subtypes and forgets others.
    binaries = {str(subtype): bson.Binary(b"0123456789abcdef", subtype) for subtype in [1, 2, 3, 5, 6, 8, 128, 255]}
    session.extra_step("binary subtypes", lambda: through(kinds, {"_id": 1, **binaries}), reply={"_id": 1, **binaries})
    session.step("mixed values", lambda: mixed_order(session.database.mixed))


def through(collection, document):
    collection.insert_one(document)
    return collection.find_one({"_id": document["_id"]})


def mixed_order(collection):
    values = [3, "a", None, {"x": 1}, [2, 9], b"bin", bson.ObjectId("0" * 24), True, datetime.datetime(2000, 1, 1), 1.5, bson.Int64(2), bson.MinKey(), bson.MaxKey()]
    collection.insert_many([{"_id": number, "v": value} for number, value in enumerate(values)])
    return [d["_id"] for d in collection.find().sort([("v", 1), ("_id", 1)])]


def namespaces(session):
    database = session.database
    session.step("create a collection", lambda: database.create_collection("made").name)
    session.step("create it twice", lambda: database.command("create", "made"), error=48)
    session.step("collections", lambda: sorted(database.list_collection_names()))
    # The twin ignores the filter.
    session.extra_step("one collection", lambda: [c["name"] for c in database.list_collections(filter={"name": "made"})], reply=["made"])
    session.step("drop a collection", lambda: database.drop_collection("made") and None)
    session.step("collections left", lambda: "made" in database.list_collection_names())
    session.step("databases", lambda: NAME in session.client.list_database_names())
    session.step("unknown command", lambda: database.command("nonsense"), error=59)
    session.step("ping", lambda: database.command("ping")["ok"])


def files(session):
    """GridFS: a file of many chunks of 255 KiB, stored, read as a stream and from its middle, listed and deleted."""
    bucket = gridfs.GridFSBucket(session.database, "blobs")
    content = bytes(range(251)) * (FILE_BYTES // 251 + 1)
    content = content[:FILE_BYTES]

    def tail():
        stream = bucket.open_download_stream(FILE)
        stream.seek(FILE_BYTES - 1000)
        return hashlib.sha256(stream.read()).hexdigest()

    def whole():
        sink = io.BytesIO()
        bucket.download_to_stream(FILE, sink)
        return [sink.tell(), sink.getvalue() == content]

    chunks = session.database["blobs.chunks"]
    session.step("file stored", lambda: bucket.upload_from_stream_with_id(FILE, "much", io.BytesIO(content), metadata={"kind": "x"}))
    session.step("file's chunks", lambda: chunks.count_documents({"files_id": FILE}))
    session.step("file read", whole)
    session.step("file's end", tail)
    session.step("files found", lambda: [[found.filename, found.length, found.metadata] for found in bucket.find({"length": {"$gt": 1000}})])
    session.step("file's chunk again", lambda: chunks.insert_one({"files_id": FILE, "n": 0}), error=11000)
    session.step("file renamed", lambda: bucket.rename(FILE, "less"))
    session.step("file deleted", lambda: bucket.delete(FILE))
    session.step("chunks left", lambda: chunks.count_documents({}))


def deletes(session):
    many = session.database.many
    session.step("delete one", lambda: many.delete_one({"n": 3}).deleted_count)
    session.step("delete many", lambda: many.delete_many({"n": {"$in": [3, 4]}}).deleted_count)
    session.step("delete none", lambda: many.delete_many({"n": 77}).deleted_count)
    session.step("left", lambda: many.count_documents({}))
    session.step("delete all", lambda: many.delete_many({}).deleted_count)
    session.step("drop database", lambda: session.client.drop_database(NAME))
    session.step("all gone", lambda: session.database.list_collection_names())


PARTS = [
    inserts,
    finds,
    cursors,
    updates,
    finds_and_modifies,
    bulk,
    indexes,
    aggregations,
    types,
    namespaces,
    handshake,
    texts,
    files,
    refusals,
    explanations,
    deletes,
]


def main(arguments):
    if not arguments or arguments[1:] not in ([], ["--extra"]):
        sys.exit("usage: session.py URI [--extra]")
    session = Session(arguments[0], extra="--extra" in arguments)
    for part in PARTS:
        part(session)


if __name__ == "__main__":
    main(sys.argv[1:])
