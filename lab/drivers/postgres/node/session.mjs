// A session through node-postgres: `session.mjs URL [--extra]`; schema.toml says which of its columns are encrypted.
//
// Prints one line of JSON a step, {"step": name, "reply": ...}: steps run on a database in plaintext and through the proxy,
// and their lines are compared. A step that fails in plaintext where it should not ends the script with status 1.

import { once } from "node:events";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import pg from "pg";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";
import Cursor from "pg-cursor";
import QueryStream from "pg-query-stream";

const [url, ...options] = process.argv.slice(2);
const extra = options.includes("--extra");
const COLUMNS = ["id", "device", "value", "price", "count", "small", "taken", "day", "good", "raw", "meta", "serial"];
const CREATE = `CREATE TABLE readings (
    id serial PRIMARY KEY, device text NOT NULL, value float8, price numeric(12,2), count bigint, small smallint,
    taken timestamptz, day date, good boolean, raw bytea, meta jsonb, serial uuid UNIQUE)`;

// Days as PostgreSQL writes them: node-postgres makes them midnight of this machine's zone.
pg.types.setTypeParser(pg.types.builtins.DATE, (text) => text);

function plain(value) {
  if (value instanceof Date) return { date: value.toISOString() };
  if (Buffer.isBuffer(value)) return { bytes: value.toString("hex") };
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value === "number" && !Number.isFinite(value)) return { number: String(value) };
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, plain(item)]));
  return value ?? null;
}

function print(line) {
  console.log(JSON.stringify(line));
}

async function run(operation) {
  try {
    return [plain(await operation()), null];
  } catch (error) {
    if (!error.code || !error.severity) throw error;
    return [{ sqlstate: error.code, message: error.message, severity: error.severity, position: error.position ?? null }, error.code];
  }
}

async function step(name, operation, expected = null) {
  const [reply, state] = await run(operation);
  if (state !== expected && !extra) throw new Error(`step ${name}: expected ${expected}, got ${JSON.stringify(reply)}`);
  print({ step: name, reply });
}

async function refused(name, operation, expected = "0A000") {
  if (!extra) return;
  const [reply, state] = await run(operation);
  print({ step: name, reply, extra: state === expected });
}

const READINGS = [
  ["thermo", 21.5, "10.50", "9007199254740993", 1, new Date("2024-02-29T12:30:15.123Z"), "2024-02-29", true, Buffer.from([0, 255, 7]), { a: [1, null, "ä"] }, "12345678-1234-5678-1234-567812345678"],
  ["thermo", -0.5, "-9999999999.99", "-1", -32768, new Date(0), "1969-12-31", false, Buffer.alloc(0), [], "00000000-0000-0000-0000-000000000001"],
  ["日本語 🎈 'q\\", 1e300, "0.00", "0", 32767, new Date("9999-12-31T23:59:59.999Z"), "0001-01-01", null, Buffer.from("text"), "s", null],
  ["bare", null, null, null, null, null, null, null, null, null, null],
];

const QUERIES = {
  all: ["SELECT * FROM readings ORDER BY id"],
  equal: ["SELECT id, value FROM readings WHERE device = $1 ORDER BY id", ["thermo"]],
  "equal bigint": ["SELECT id, count FROM readings WHERE count = $1", ["9007199254740993"]],
  "equal bytes": ["SELECT id FROM readings WHERE raw = $1", [Buffer.from([0, 255, 7])]],
  "equal uuid": ["SELECT id FROM readings WHERE serial = $1", ["12345678-1234-5678-1234-567812345678"]],
  "equal boolean": ["SELECT id FROM readings WHERE good = $1", [true]],
  any: ["SELECT id FROM readings WHERE device = ANY($1) ORDER BY id", [["thermo", "bare"]]],
  "any number": ["SELECT id FROM readings WHERE small = ANY($1::smallint[]) ORDER BY id", [[1, 32767]]],
  "not equal": ["SELECT id FROM readings WHERE device <> $1 ORDER BY id", ["thermo"]],
  less: ["SELECT id FROM readings WHERE taken < $1 ORDER BY taken", [new Date("2030-01-01T00:00:00Z")]],
  between: ["SELECT id FROM readings WHERE value BETWEEN $1 AND $2 ORDER BY value", [-1, 30]],
  "is null": ["SELECT id FROM readings WHERE price IS NULL"],
  ordered: ["SELECT id, day FROM readings ORDER BY day DESC NULLS LAST LIMIT $1 OFFSET $2", [2, 1]],
  aggregates: ["SELECT count(*), sum(price), min(value), max(day), avg(count) FROM readings"],
  grouped: ["SELECT device, count(*), max(price) FROM readings GROUP BY device ORDER BY count(*) DESC, max(price)"],
  nothing: ["SELECT * FROM readings WHERE device = $1", ["none"]],
};

async function reads(client) {
  for (const [name, [text, values]] of Object.entries(QUERIES)) {
    await step(name, async () => (await client.query(text, values)).rows);
    await step(`${name}, by name`, async () => {
      await client.query({ name, text, values });
      const { rows, fields, command, rowCount } = await client.query({ name, text, values, rowMode: "array" });
      return { rows, command, rowCount, fields: fields.map((field) => [field.name, field.dataTypeID, field.dataTypeSize]) };
    });
  }
  await step("in binary", async () => {
    const { rows } = await client.query({ text: "SELECT id, device, value, count, good FROM readings ORDER BY id", binary: true });
    return rows;
  });
  await step("several statements", async () => {
    const results = await client.query("SELECT device FROM readings WHERE id = 1; SELECT 2 AS two; SELECT count(value) FROM readings");
    return results.map((result) => result.rows);
  });
}

async function writes(client) {
  await step("insert", async () => {
    const places = COLUMNS.slice(1).map((_, place) => `$${place + 1}`).join(", ");
    const text = `INSERT INTO readings (${COLUMNS.slice(1).join(", ")}) VALUES (${places}) RETURNING *`;
    const rows = [];
    for (const values of READINGS) rows.push((await client.query({ name: "insert", text, values: values.map((value, place) => (place === 9 && value !== null ? JSON.stringify(value) : value)) })).rows[0]);
    return rows;
  });
}

async function changes(client) {
  const query = async (text, values) => {
    const { command, rowCount, rows } = await client.query(text, values);
    return [command, rowCount, rows];
  };
  await step("update", () => query("UPDATE readings SET value = $1, raw = NULL WHERE device = $2 AND good", [3.25, "thermo"]));
  await step("update from old", () => query("UPDATE readings SET price = price + $1, count = count * 2 WHERE small = $2 RETURNING price, count", ["0.75", -32768]));
  await step("on conflict", () => query(
    "INSERT INTO readings (device, serial) VALUES ($1, $2) ON CONFLICT (serial) DO UPDATE SET device = EXCLUDED.device RETURNING device, value, serial",
    ["again", "12345678-1234-5678-1234-567812345678"]));
  await step("delete", () => query("DELETE FROM readings WHERE value > $1 RETURNING device", [1e10]));
  await step("duplicate", () => query("INSERT INTO readings (device, serial) VALUES ('x', '12345678-1234-5678-1234-567812345678')"), "23505");
  await step("not null", () => query("INSERT INTO readings (value) VALUES (1)"), "23502");
  await step("wrong value", () => query("SELECT id FROM readings WHERE serial = $1", ["no uuid"]), "22P02");
  await step("outside its type", () => query("UPDATE readings SET small = $1", [40000]), "22003");
  await step("no column", () => query("SELECT devise FROM readings"), "42703");
  // The message is the proxy's own: it reads what names an encrypted table.
  await step("syntax", async () => {
    const [failed] = await run(() => query("SELEC device FROM readings"));
    return [failed.sqlstate, failed.position];
  });
  await step("too many parameters", () => query("SELECT id FROM readings WHERE device = $1", ["a", "b"]), "08P01");
  await refused("like", () => query("SELECT id FROM readings WHERE device LIKE $1", ["t%"]));
  await step("goes on", () => query("SELECT count(device) FROM readings"));
}

async function transactions(client) {
  await step("rolled back", async () => {
    await client.query("BEGIN");
    await client.query("DELETE FROM readings WHERE device = $1", ["thermo"]);
    const inside = (await client.query("SELECT count(*) FROM readings")).rows;
    await client.query("ROLLBACK");
    return [inside, (await client.query("SELECT count(*) FROM readings")).rows];
  });
  await step("savepoint", async () => {
    await client.query("BEGIN");
    await client.query("UPDATE readings SET small = 5 WHERE device = 'bare'");
    await client.query("SAVEPOINT s");
    const [failed] = await run(() => client.query("INSERT INTO readings (device) VALUES (NULL)"));
    await client.query("ROLLBACK TO s");
    await client.query("COMMIT");
    return [failed.sqlstate, (await client.query("SELECT id FROM readings WHERE small = 5")).rowCount];
  });
}

async function pooled() {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  await step("pool", async () => {
    const inserted = await Promise.all(Array.from({ length: 60 }, (_, number) =>
      pool.query("INSERT INTO readings (device, count, value) VALUES ($1, $2, $3)", [`pooled ${number % 3}`, number, number / 4])));
    const { rows } = await pool.query("SELECT device, count(*), sum(count), max(value) FROM readings WHERE value >= 0 AND device <> 'thermo' GROUP BY device ORDER BY max(value)");
    return [inserted.length, rows.filter((row) => row.device.startsWith("pooled"))];
  });
  await step("queued on one connection", async () => {
    const client = await pool.connect();
    const results = await Promise.all(Array.from({ length: 20 }, (_, number) =>
      client.query("SELECT id FROM readings WHERE count = $1 AND device = $2", [number, `pooled ${number % 3}`])));
    client.release();
    return results.map((result) => result.rowCount);
  });
  await pool.end();
}

async function streams(client) {
  await step("copy in", async () => {
    const lines = Array.from({ length: 500 }, (_, number) => `copied ${number}\t${number % 5}\t${number % 2 ? number / 100 : "\\N"}\n`);
    const stream = client.query(copyFrom("COPY readings (device, count, price) FROM STDIN"));
    await pipeline(Readable.from(lines), stream);
    return stream.rowCount;
  });
  await step("copy out", async () => {
    const stream = client.query(copyTo("COPY (SELECT device, count, price FROM readings WHERE price IS NOT NULL ORDER BY price LIMIT 100) TO STDOUT WITH (FORMAT csv, HEADER true)"));
    const pieces = [];
    for await (const piece of stream) pieces.push(piece);
    return Buffer.concat(pieces).toString();
  });
  await step("copy of a wrong row", async () => {
    const stream = client.query(copyFrom("COPY readings (device, count) FROM STDIN"));
    await pipeline(Readable.from(["x\t1\n", "y\tmany\n"]), stream);
  }, "22P02");
  await step("cursor", async () => {
    const cursor = client.query(new Cursor("SELECT device, price FROM readings WHERE count = $1 AND price > $2 ORDER BY price", [1, "0.10"]));
    const reads = [await cursor.read(3), await cursor.read(2)];
    await cursor.close();
    return reads;
  });
  await step("stream", async () => {
    let rows = 0;
    for await (const row of client.query(new QueryStream("SELECT device FROM readings WHERE count < $1", [3], { batchSize: 7 }))) rows += row.device.startsWith("copied") ? 1 : 0;
    return rows;
  });
}

async function others(client) {
  await step("notices", async () => {
    const noticed = once(client, "notice");
    await client.query("DO $$ BEGIN RAISE NOTICE 'noticed' USING HINT = 'a hint'; END $$");
    const [notice] = await noticed;
    return [notice.message, notice.hint];
  });
  await step("notifications", async () => {
    const notified = once(client, "notification");
    await client.query("LISTEN told");
    await client.query("NOTIFY told, 'payload'");
    const [notification] = await notified;
    return [notification.channel, notification.payload];
  });
  await step("time limit", () => new Promise((resolve, reject) => {
    client.query("SET statement_timeout = 50").then(() => client.query("SELECT device, pg_sleep(3600) FROM readings LIMIT 1")).then(resolve, reject);
  }), "57014");
  await step("cancelled by another", async () => {
    await client.query("SET statement_timeout = 0");
    const pid = (await client.query("SELECT pg_backend_pid() AS pid")).rows[0].pid;
    const slept = run(() => client.query("SELECT pg_sleep(3600)"));
    const other = new pg.Client({ connectionString: url });
    await other.connect();
    let sleeping = false;
    while (!sleeping) sleeping = (await other.query("SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'", [pid])).rowCount === 1;
    await other.query("SELECT pg_cancel_backend($1)", [pid]);
    await other.end();
    return (await slept)[0];
  });
  await step("wrong password", async () => {
    const other = new pg.Client({ connectionString: url.replace("a%20secret", "wrong") });
    await other.connect();
  }, "28P01");
  await step("tables and columns", async () => (await client.query(
    "SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_name = 'readings' ORDER BY column_name")).rows);
}

const client = new pg.Client({ connectionString: url });
await client.connect();
await client.query("SET TimeZone = 'UTC'");
await step("create", async () => (await client.query(CREATE)).command);
await writes(client);
await reads(client);
await changes(client);
await transactions(client);
await pooled();
await streams(client);
await others(client);
await step("drop", async () => (await client.query("DROP TABLE readings")).command);
await client.end();
