// A session of operations through the Node.js driver: `node session.mjs URI [--extra]`.
//
// Prints one line of JSON a step: {"step": name, "reply": ...}; the contract is that of ../python/session.py, which
// tests the breadth of the query language. This one tests what is this driver's own: its cursors and streams, its
// numbers, its bulk writes, many operations at once over a pool of connections.

import { Binary, BSON, Decimal128, Double, Int32, Long, MongoBulkWriteError, MongoClient, MongoServerError, ObjectId } from "mongodb";

const NAME = "arras_session_node";
const { EJSON } = BSON;

/** As JSON that keeps BSON's types apart. */
const plain = (value) => JSON.parse(EJSON.stringify(value === undefined ? null : value, { relaxed: false }));

class Session {
  constructor(client, extra) {
    this.client = client;
    this.database = client.db(NAME);
    this.withExtra = extra;
  }

  /** A step both servers run. `error`: the code it must fail with. */
  async step(name, operation, error) {
    this.print({ step: name, reply: await this.run(name, operation, error) });
  }

  /** A step only Arras runs: the plaintext twin lacks what it needs. `expected`: what the reply must be. */
  async extra(name, operation, { error, reply: expected } = {}) {
    if (!this.withExtra) return;
    const reply = await this.run(name, operation, error);
    if (expected !== undefined && JSON.stringify(reply) !== JSON.stringify(plain(expected))) {
      throw new Error(`step ${name}: expected ${JSON.stringify(plain(expected))}, got ${JSON.stringify(reply)}`);
    }
    this.print({ step: name, reply, extra: true });
  }

  async run(name, operation, error) {
    let reply;
    let code;
    try {
      reply = await operation();
    } catch (failure) {
      if (!(failure instanceof MongoServerError)) throw failure;
      code = failure.code;
      reply = { error: code };
      if (failure instanceof MongoBulkWriteError) {
        reply.writeErrors = [failure.writeErrors].flat().map((one) => ({ index: one.index, code: one.code }));
      }
    }
    if (code !== error) {
      throw new Error(`step ${name}: expected error ${error}, got ${code}: ${JSON.stringify(plain(reply))}`);
    }
    return plain(reply);
  }

  print(line) {
    console.log(JSON.stringify(line));
  }
}

async function inserts(session) {
  const items = session.database.collection("items");
  await session.step("drop what was there", () => session.database.dropDatabase());
  await session.step("insert one", () => items.insertOne({ _id: 1, name: "pen", price: 1.25, tags: ["blue", "ink"] }));
  await session.step("insert many", async () => {
    const documents = Array.from({ length: 250 }, (_, i) => ({ _id: i + 2, name: `item ${i % 7}`, price: i / 4, group: i % 5 }));
    return (await items.insertMany(documents)).insertedCount;
  });
  await session.step("insert makes an id", async () => {
    const { insertedId } = await items.insertOne({ temporary: true });
    await items.deleteOne({ _id: insertedId });
    return insertedId instanceof ObjectId;
  });
  await session.step("insert a taken id", () => items.insertOne({ _id: 1 }), 11000);
  await session.step("ordered insert stops", () => items.insertMany([{ _id: "a" }, { _id: 1 }, { _id: "b" }]), 11000);
  await session.step(
    "unordered insert goes on",
    () => items.insertMany([{ _id: "c" }, { _id: 1 }, { _id: "d" }], { ordered: false }),
    11000,
  );
  await session.step("what they left", () => items.find({ _id: { $type: "string" } }).sort({ _id: 1 }).toArray());
  await session.step("clean up", () => items.deleteMany({ _id: { $type: "string" } }));
}

async function reads(session) {
  const items = session.database.collection("items");
  await session.step("find one", () => items.findOne({ name: "pen" }));
  await session.step("find one, none", () => items.findOne({ name: "none" }));
  await session.step("default batches", async () => (await items.find().toArray()).length);
  await session.step("small batches", async () => {
    let sum = 0;
    for await (const document of items.find({}, { batchSize: 9 })) sum += document._id;
    return sum;
  });
  await session.step("a stream", async () => {
    let count = 0;
    for await (const document of items.find({ group: 3 }).batchSize(11).stream()) count += document.group === 3 ? 1 : 100;
    return count;
  });
  await session.step("a cursor left half read", async () => {
    const cursor = items.find({}).batchSize(5).sort({ _id: 1 });
    const seen = [(await cursor.next())._id, (await cursor.next())._id];
    await cursor.close();
    return seen;
  });
  await session.step("rewind", async () => {
    const cursor = items.find({}).batchSize(2).sort({ _id: -1 }).limit(5);
    const first = await cursor.next();
    cursor.rewind();
    const again = (await cursor.toArray()).map((document) => document._id);
    return { first: first._id, again };
  });
  await session.step("range sorted", () =>
    items.find({ price: { $gte: 10, $lt: 11 } }).sort({ price: -1 }).project({ name: 1, price: 1 }).toArray(),
  );
  await session.step("skip and limit", () => items.find({ group: 1 }).sort({ price: 1 }).skip(3).limit(2).toArray());
  await session.step("count", () => items.countDocuments({ group: 2 }));
  await session.step("count with limit", () => items.countDocuments({}, { limit: 10, skip: 245 }));
  await session.step("estimated count", () => items.estimatedDocumentCount());
  await session.step("distinct", async () => (await items.distinct("group")).sort());
  await session.step("in", () => items.find({ _id: { $in: [3, 1, 2] } }, { projection: { _id: 1 } }).sort({ _id: 1 }).toArray());
  await session.step("regular expression", () => items.countDocuments({ name: /^ITEM [12]$/i }));
  await session.step("array element", () => items.findOne({ tags: "ink" }, { projection: { tags: 1, _id: 0 } }));
  await session.step("unknown operator", () => items.findOne({ a: { $nonsense: 1 } }), 2);
}

async function numbers(session) {
  const values = session.database.collection("numbers");
  const stored = [
    { _id: 1, v: new Int32(5) },
    { _id: 2, v: new Double(5) },
    { _id: 3, v: Long.fromString("5") },
    { _id: 4, v: Long.fromString("9007199254740993") },
    { _id: 5, v: new Double(9007199254740992) },
    { _id: 6, v: Decimal128.fromString("5.5") },
    { _id: 7, v: new Double(-0.5) },
    { _id: 8, v: Long.MAX_VALUE },
    { _id: 9, v: Long.MIN_VALUE },
  ];
  await session.step("insert numbers", () => values.insertMany(stored));
  const promote = { promoteValues: false, promoteLongs: false };
  await session.step("numbers", () => values.find({}, promote).sort({ _id: 1 }).toArray());
  await session.step("numbers in order", () => values.find({}, promote).sort({ v: 1, _id: 1 }).map((d) => d._id).toArray());
  await session.step("equal across types", () => values.find({ v: 5 }, promote).sort({ _id: 1 }).toArray());
  await session.step("beyond doubles", () => values.find({ v: { $gt: new Double(9007199254740992) } }, promote).sort({ _id: 1 }).toArray());
  await session.step("increment keeps int", () => values.findOneAndUpdate({ _id: 1 }, { $inc: { v: 1 } }, { returnDocument: "after", ...promote }));
  await session.step("increment to double", () =>
    values.findOneAndUpdate({ _id: 1 }, { $inc: { v: new Double(0.5) } }, { returnDocument: "after", ...promote }),
  );
  await session.step("increment a long", () =>
    values.findOneAndUpdate({ _id: 4 }, { $inc: { v: 1 } }, { returnDocument: "after", ...promote }),
  );
  await session.extra("overflow", () => values.updateOne({ _id: 8 }, { $inc: { v: 1 } }), { error: 2 });
  await session.extra(
    "int grows to long",
    async () => {
      await values.insertOne({ _id: 10, v: new Int32(2147483647) });
      return values.findOneAndUpdate({ _id: 10 }, { $inc: { v: new Int32(1) } }, { returnDocument: "after", ...promote });
    },
    { reply: { _id: new Int32(10), v: Long.fromString("2147483648") } },
  );
  await session.step("sum", () => values.aggregate([{ $match: { _id: { $in: [2, 3] } } }, { $group: { _id: null, s: { $sum: "$_id" } } }]).toArray());
}

async function writes(session) {
  const items = session.database.collection("items");
  await session.step("update one", () => items.updateOne({ _id: 1 }, { $set: { price: 2 }, $push: { tags: { $each: ["new", "old"] } } }));
  await session.step("update many", async () => (await items.updateMany({ group: 4 }, { $inc: { price: 100 } })).modifiedCount);
  await session.step("upsert", () => items.updateOne({ _id: "u" }, { $set: { x: 1 }, $setOnInsert: { y: 2 } }, { upsert: true }));
  await session.step("upserted", () => items.findOne({ _id: "u" }));
  await session.step("replace", () => items.replaceOne({ _id: "u" }, { z: [{ a: 1 }, { a: 2 }] }));
  await session.step("array filters", () => items.updateOne({ _id: "u" }, { $set: { "z.$[e].b": true } }, { arrayFilters: [{ "e.a": 2 }] }));
  await session.step("positional", () => items.updateOne({ _id: "u", "z.a": 1 }, { $inc: { "z.$.a": 10 } }));
  await session.step("all elements", () => items.updateOne({ _id: "u" }, { $set: { "z.$[].c": "all" } }));
  await session.step("updated", () => items.findOne({ _id: "u" }));
  await session.step("find and update", () =>
    items.findOneAndUpdate({ group: 0 }, { $set: { first: true } }, { sort: { price: -1 }, returnDocument: "after", projection: { first: 1 } }),
  );
  await session.step("find and replace", () => items.findOneAndReplace({ _id: "u" }, { gone: "soon" }));
  await session.step("find and delete", () => items.findOneAndDelete({ _id: "u" }));
  await session.step("with the metadata", async () => {
    const reply = await items.findOneAndUpdate({ _id: 2 }, { $set: { m: 1 } }, { includeResultMetadata: true });
    return { lastErrorObject: reply.lastErrorObject, id: reply.value._id, ok: reply.ok };
  });
  await session.step("bulk write", async () => {
    const result = await items.bulkWrite([
      { insertOne: { document: { _id: "b1" } } },
      { updateOne: { filter: { _id: "b1" }, update: { $set: { n: 1 } } } },
      { updateOne: { filter: { _id: "b2" }, update: { $set: { n: 2 } }, upsert: true } },
      { replaceOne: { filter: { _id: "b1" }, replacement: { n: 3 } } },
      { updateMany: { filter: { _id: { $in: ["b1", "b2"] } }, update: { $inc: { n: 1 } } } },
      { deleteOne: { filter: { _id: "b2" } } },
      { deleteMany: { filter: { _id: "nothing" } } },
    ]);
    const { insertedCount, matchedCount, modifiedCount, deletedCount, upsertedCount, upsertedIds } = result;
    return { insertedCount, matchedCount, modifiedCount, deletedCount, upsertedCount, upsertedIds };
  });
  await session.step("bulk wrote", () => items.find({ _id: /^b/ }).toArray());
  await session.step("bulk write that fails", () =>
    items.bulkWrite([{ insertOne: { document: { _id: "b1" } } }, { insertOne: { document: { _id: "b9" } } }]), 11000);
  await session.step("change the id", () => items.updateOne({ _id: 1 }, { $set: { _id: 5000 } }), 66);
  await session.step("delete", () => items.deleteMany({ _id: { $gt: 100 } }));
}

async function atOnce(session) {
  const counters = session.database.collection("counters");
  await session.step("increments at once", async () => {
    await counters.insertOne({ _id: 1, n: 0 });
    await Promise.all(Array.from({ length: 60 }, () => counters.updateOne({ _id: 1 }, { $inc: { n: 1 } })));
    return (await counters.findOne({ _id: 1 })).n;
  });
  await session.step("inserts of one id at once", async () => {
    const attempts = Array.from({ length: 20 }, () => counters.insertOne({ _id: "once" }).then(() => 1, (error) => (error.code === 11000 ? 0 : 1000)));
    return (await Promise.all(attempts)).reduce((sum, one) => sum + one, 0);
  });
  await session.step("takes from a queue at once", async () => {
    await counters.insertMany(Array.from({ length: 20 }, (_, i) => ({ _id: `job ${i}`, state: "new" })));
    const take = () => counters.findOneAndUpdate({ state: "new" }, { $set: { state: "taken" } });
    const taken = await Promise.all(Array.from({ length: 30 }, take));
    const ids = taken.filter(Boolean).map((job) => job._id);
    return { taken: ids.length, different: new Set(ids).size };
  });
}

async function indexesAndTypes(session) {
  const users = session.database.collection("users");
  await session.step("unique index", () => users.createIndex({ "contact.mail": 1 }, { unique: true }));
  await session.step("insert users", () => users.insertMany([{ _id: 1, contact: { mail: "a" } }, { _id: 2, contact: { mail: "b" } }]));
  await session.step("violate it", () => users.insertOne({ contact: { mail: "a" } }), 11000);
  await session.step("violate it by upsert", () =>
    users.updateOne({ _id: 3 }, { $set: { "contact.mail": "b" } }, { upsert: true }), 11000);
  await session.extra(
    "what was violated",
    async () => {
      const failure = await users.insertOne({ contact: { mail: "a" } }).catch((error) => error);
      return [failure.keyPattern, failure.keyValue];
    },
    { reply: [{ "contact.mail": new Int32(1) }, { "contact.mail": "a" }] },
  );
  await session.step("indexes", async () =>
    (await users.indexes()).map(({ name, key, unique }) => ({ name, key, unique: unique === true })));
  await session.step("drop the index", async () => {
    await users.dropIndex("contact.mail_1");
    return (await users.insertOne({ _id: 4, contact: { mail: "a" } })).acknowledged;
  });
  await session.step("drop an unknown index", () => users.dropIndex("nonsense"), 27);
  const kinds = session.database.collection("kinds");
  const document = {
    _id: new ObjectId("0123456789abcdef01234567"),
    nothing: null,
    date: new Date(0),
    bytes: new Binary(Buffer.from([1, 2, 3])),
    regex: /a.b/is,
    decimal: Decimal128.fromString("0.1"),
    nested: [[[]], { a: [{ b: {} }] }],
    text: "žluťoučký 🎈 \u0000 end",
    "weird.name": 1,
  };
  await session.extra("types", async () => {
    await kinds.insertOne(document);
    return kinds.findOne({ _id: document._id });
  });
  await session.step("a megabyte", async () => {
    await kinds.insertOne({ _id: 2, text: "é".repeat(500_000) });
    return (await kinds.findOne({ _id: 2 })).text.length;
  });
  await session.step("collections", async () =>
    (await session.database.listCollections({}, { nameOnly: true }).toArray()).map(({ name, type }) => ({ name, type })).sort((a, b) => (a.name < b.name ? -1 : 1)),
  );
}

async function aggregations(session) {
  const items = session.database.collection("items");
  const run = (pipeline) => () => items.aggregate(pipeline).toArray();
  await session.step("group", run([{ $match: { group: { $exists: true } } }, { $group: { _id: "$group", n: { $sum: 1 }, top: { $max: "$price" } } }, { $sort: { _id: 1 } }]));
  await session.step("average", run([{ $match: { group: 1 } }, { $group: { _id: null, average: { $avg: "$price" }, sum: { $sum: "$price" } } }]));
  await session.step("count stage", run([{ $match: { group: 1 } }, { $count: "n" }]));
  await session.step("top", run([{ $sort: { price: -1, _id: 1 } }, { $limit: 2 }, { $project: { price: 1 } }]));
  await session.step("unwind", run([{ $match: { _id: 1 } }, { $unwind: "$tags" }, { $project: { _id: 0, tags: 1 } }, { $sort: { tags: 1 } }]));
  await session.step("batches of an aggregation", async () => {
    let count = 0;
    for await (const document of items.aggregate([{ $project: { name: 1 } }], { batchSize: 7 })) count += document.name ? 1 : 0;
    return count;
  });
  await session.step("unknown stage", run([{ $nonsense: 1 }]), 40324);
}

async function arrasOnly(session) {
  const { database, client } = session;
  const items = database.collection("items");
  await session.extra("logical session", () => client.withSession((logical) => items.countDocuments({ _id: 1 }, { session: logical })), { reply: 1 });
  await session.extra(
    "transaction",
    () =>
      client.withSession(async (logical) => {
        logical.startTransaction();
        await items.insertOne({ _id: "t" }, { session: logical });
      }),
    { error: 20 },
  );
  await session.extra("change stream", () => items.watch().next(), { error: 238 });
  await session.extra("explain", async () => {
    const plan = await items.find({ _id: 1 }).explain();
    return [plan.queryPlanner.namespace, typeof plan.arras, typeof plan.queryPlanner.winningPlan.stage];
  }, { reply: [`${NAME}.items`, "object", "string"] });
  await session.extra("stable API", async () => {
    const strict = new MongoClient(client.options.hosts.map((host) => `mongodb://${host}/`).join(), { serverApi: { version: "1", strict: true } });
    try {
      return await strict.db(NAME).collection("items").countDocuments({ _id: 1 });
    } finally {
      await strict.close();
    }
  }, { reply: 1 });
  await session.extra("collation", () => items.find({}, { collation: { locale: "cs" } }).toArray(), { error: 238 });
  await session.extra("update by pipeline", () => items.updateOne({}, [{ $set: { a: 1 } }]), { error: 238 });
  await session.extra("code with scope is a type too", async () => {
    await database.collection("kinds").insertOne({ _id: 3, code: new BSON.Code("f", { a: 1 }) });
    return database.collection("kinds").findOne({ _id: 3 });
  }, { reply: { _id: 3, code: new BSON.Code("f", { a: 1 }) } });
  await session.extra("unacknowledged", async () => {
    const result = await database.collection("silent", { writeConcern: { w: 0 } }).insertOne({ _id: 1 });
    return result.acknowledged;
  }, { reply: false });
  const letters = database.collection("letters");
  const words = { $text: { $search: "running \"old dog\" -cat" } };
  const score = { $meta: "textScore" };
  await session.extra("text index", () => letters.createIndex({ "lines.text": "text" }, { default_language: "english" }), { reply: "lines.text_text" });
  await session.extra("text documents", async () => {
    const made = [["an old dog runs"], ["old", "dog runs"], ["old dogs run", "a cat"]].map((lines, _id) => ({ _id, lines: lines.map((text) => ({ text })) }));
    return (await letters.insertMany(made)).insertedCount;
  }, { reply: 3 });
  await session.extra("text found", () => letters.find(words).project({ _id: 1, s: score }).sort({ s: score }).map((found) => found._id).toArray(), { reply: [0] });
  await session.extra("text changed", async () => (await letters.findOneAndUpdate(words, { $set: { lines: [] } }, { returnDocument: "after" })).lines, { reply: [] });
  await session.extra("text gone", () => letters.countDocuments(words), { reply: 0 });
  await session.extra("text collection dropped", () => letters.drop(), { reply: true });
  await session.extra("list of commands", async () => (await database.admin().command({ listCommands: 1 })).commands.find !== undefined, { reply: true });
}

async function ending(session) {
  await session.step("drop a collection", () => session.database.collection("users").drop());
  await session.step("drop the database", () => session.database.dropDatabase());
  await session.step("all gone", () => session.database.listCollections().toArray());
}

const PARTS = [inserts, reads, numbers, writes, atOnce, indexesAndTypes, aggregations, arrasOnly, ending];

const [uri, ...rest] = process.argv.slice(2);
if (!uri || rest.some((argument) => argument !== "--extra")) {
  console.error("usage: node session.mjs URI [--extra]");
  process.exit(1);
}
// The twin cannot repeat a write; against Arras the driver finds out by itself that it is not asked to.
const client = new MongoClient(uri, { serverSelectionTimeoutMS: 15000, retryWrites: false });
try {
  const session = new Session(client, rest.includes("--extra"));
  for (const part of PARTS) await part(session);
} finally {
  await client.close();
}
