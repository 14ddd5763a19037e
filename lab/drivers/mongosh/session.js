// What a person types into the shell, as a script for mongosh (see run.mjs). Prints one line of JSON a step:
// {"step": name, "reply": ...}; the contract is that of ../python/session.py. It tests the commands the shell itself
// sends and how it shows what comes back; the query language is the Python session's.

const NAME = "arras_session_mongosh";
const EXTRA = Boolean(process.env.ARRAS_EXTRA);
const shell = db.getSiblingDB(NAME);

/** As JSON that keeps BSON's types apart. */
function plain(value) {
  return JSON.parse(EJSON.stringify(value === undefined ? null : value, { relaxed: false }));
}

function run(name, operation, error) {
  let reply;
  let code;
  try {
    reply = operation();
  } catch (failure) {
    if (failure.code === undefined) throw failure;
    code = failure.code;
    reply = { error: code };
  }
  if (code !== error) {
    throw new Error(`step ${name}: expected error ${error}, got ${code}: ${JSON.stringify(plain(reply))}`);
  }
  return plain(reply);
}

/** A step both servers run. `error`: the code it must fail with. */
function step(name, operation, error) {
  print(JSON.stringify({ step: name, reply: run(name, operation, error) }));
}

/** A step only Arras runs: the plaintext twin lacks what it needs. `expected`: what the reply must be. */
function extra(name, operation, expected, error) {
  if (!EXTRA) return;
  const reply = run(name, operation, error);
  if (expected !== undefined && JSON.stringify(reply) !== JSON.stringify(plain(expected))) {
    throw new Error(`step ${name}: expected ${JSON.stringify(plain(expected))}, got ${JSON.stringify(reply)}`);
  }
  print(JSON.stringify({ step: name, reply, extra: true }));
}

// Databases and collections.
step("drop what was there", () => shell.dropDatabase().ok);
step("create a collection", () => shell.createCollection("films").ok);
step("show collections", () => shell.getCollectionNames());
step("show databases", () => db.getMongo().getDBNames().includes(NAME));

// Documents.
const films = shell.films;
step("insert one", () => films.insertOne({ _id: 1, title: "Metropolis", year: 1927, cast: ["Helm", "Abel"] }));
step("insert many", () =>
  films.insertMany([
    { _id: 2, title: "M", year: 1931, length: NumberInt(111) },
    { _id: 3, title: "Nosferatu", year: 1922, length: NumberLong("94"), rating: NumberDecimal("7.9") },
    { _id: 4, title: "Vampyr", year: 1932, seen: ISODate("2020-05-17T20:00:00Z") },
    { _id: 5, title: "Häxan", year: 1922, key: ObjectId("0123456789abcdef01234567") },
  ]),
);
step("insert a taken id", () => films.insertOne({ _id: 2 }), 11000);
step("find", () => films.find({ year: { $lt: 1930 } }).sort({ year: 1, _id: 1 }).toArray());
step("find one", () => films.findOne({ title: "M" }));
step("projection", () => films.find({}, { title: 1, _id: 0 }).sort({ title: 1 }).toArray());
step("chain", () => films.find().sort({ year: -1 }).skip(1).limit(2).map((film) => film.title).toArray());
step("it", () => {
  const cursor = films.find().sort({ _id: 1 }).batchSize(2);
  const titles = [];
  while (cursor.hasNext()) titles.push(cursor.next().title);
  return titles;
});
step("for each", () => {
  let sum = 0;
  films.find().forEach((film) => (sum += film.year));
  return sum;
});
step("count", () => films.countDocuments({ year: 1922 }));
step("count without a filter", () => films.estimatedDocumentCount());
step("distinct", () => films.distinct("year").sort());
step("update one", () => films.updateOne({ _id: 1 }, { $set: { length: 153 }, $push: { cast: "Klein-Rogge" } }));
step("update many", () => films.updateMany({ year: { $gt: 1930 } }, { $set: { sound: true } }));
step("upsert", () => films.updateOne({ _id: 6 }, { $set: { title: "Faust" } }, { upsert: true }));
step("replace", () => films.replaceOne({ _id: 6 }, { title: "Faust", year: 1926 }));
step("find and modify", () =>
  films.findAndModify({ query: { _id: 6 }, update: { $inc: { year: 1 } }, new: true }),
);
step("find and update", () => films.findOneAndUpdate({ _id: 6 }, { $set: { year: 1926 } }, { returnDocument: "after" }));
step("find and delete", () => films.findOneAndDelete({ _id: 6 }));
step("all", () => films.find().sort({ _id: 1 }).toArray());
step("aggregate", () =>
  films
    .aggregate([{ $group: { _id: "$year", n: { $sum: 1 } } }, { $match: { n: { $gt: 1 } } }, { $sort: { _id: 1 } }])
    .toArray(),
);
step("bulk write", () => {
  const result = films.bulkWrite([
    { insertOne: { document: { _id: 7, title: "x" } } },
    { updateOne: { filter: { _id: 7 }, update: { $set: { title: "y" } } } },
    { deleteOne: { filter: { _id: 7 } } },
  ]);
  return [result.insertedCount, result.modifiedCount, result.deletedCount];
});
step("delete one", () => films.deleteOne({ _id: 5 }));
step("delete many", () => films.deleteMany({ year: 1922 }));

// Indexes.
step("create an index", () => films.createIndex({ title: 1 }, { unique: true }));
step("show indexes", () => films.getIndexes().map(({ name, key, unique }) => ({ name, key, unique: unique === true })));
step("violate it", () => films.insertOne({ title: "M" }), 11000);
step("drop it", () => films.dropIndex("title_1").ok);

// Commands.
step("run a command", () => shell.runCommand({ ping: 1 }).ok);
step("unknown command", () => shell.runCommand({ nonsense: 1 }), 59);
extra("version", () => db.version(), "7.0.0");
extra("hello", () => db.hello().maxWireVersion, 21);
extra("host information", () => typeof db.hostInfo().system.numCores, "number");
extra("server status", () => db.serverStatus().process, "arras");
extra("connection status", () => db.runCommand({ connectionStatus: 1 }).authInfo.authenticatedUsers, []);
extra("database statistics", () => shell.stats().objects, NumberInt(3));
extra("explain", () => films.find({ title: "M" }).explain().queryPlanner.namespace, `${NAME}.films`);
extra("what explain says of Arras", () => typeof films.explain().count({ year: 1 }).arras, "object");
extra("commands", () => shell.runCommand({ listCommands: 1 }).commands.find.adminOnly, false);
extra("logical session", () => {
  const logical = db.getMongo().startSession();
  const count = logical.getDatabase(NAME).films.countDocuments({});
  logical.endSession();
  return count;
}, NumberInt(3));
extra("capped", () => shell.createCollection("ring", { capped: true, size: 1000 }), undefined, 238);
extra("JavaScript", () => films.find({ $where: "true" }).toArray(), undefined, 238);

// The end.
step("drop a collection", () => films.drop());
step("drop the database", () => shell.dropDatabase().ok);
step("nothing left", () => shell.getCollectionNames());
