"use strict";

/* The page's own script: fills the form, sends it, follows a run, shows what it found. Text goes into the page as
   text, never as markup. */

const get = (id) => document.getElementById(id);
const form = get("form");
const NUMBERS = ["records", "queries", "seed", "page_bytes", "cache_pages", "decimals"];
const LINK_CHARACTERS_MAX = 30000;
let options;
let following = 0;
let follower = 0;
const chosenRuns = new Set();

/** An element with text or children. */
function element(name, content = [], attributes = {}) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  for (const part of [content].flat()) made.append(part);
  return made;
}

async function ask(path, request) {
  const response = await fetch(path, request);
  const body = await response.json().catch(() => ({ message: `the server answered ${response.status}` }));
  return { ok: response.ok, status: response.status, body };
}

const titleOf = (name) => options.protocols.find((protocol) => protocol.name === name)?.title ?? name;

/* ---- the form ---- */

function fillSelect(name, choices) {
  form.elements[name].replaceChildren(
    ...choices.map(([value, text]) => element("option", text, { value })),
  );
}

function buildForm() {
  fillSelect("dataset", options.datasets.map((set) => [set.name, set.title]));
  fillSelect("numbers", options.numbers.map((name) => [name, name]));
  fillSelect("cache_policy", options.cache_policies.map((name) => [name, name.toUpperCase()]));
  get("protocols").replaceChildren(
    ...options.protocols.map((protocol) => {
      const box = element("input", [], { type: "checkbox", name: "protocol", value: protocol.name, "aria-describedby": "error-protocols" });
      const slow = protocol.in_all ? "" : " · slow: pairings";
      const note = element("small", `${protocol.worst ? `shows ${protocol.worst}` : "shows nothing"}${slow}`);
      return element("label", [box, element("span", [protocol.title, note])]);
    }),
  );
  for (const field of form.querySelectorAll("input[name], select[name], textarea[name]")) {
    if (field.name === "protocol") continue;
    const note = element("p", [], { class: "error", id: `error-${field.name}` });
    note.hidden = true;
    field.after(note);
    field.setAttribute("aria-describedby", note.id);
  }
}

function setForm(values) {
  const chosen = values.protocols ?? [];
  for (const box of form.querySelectorAll("input[name=protocol]")) {
    const entry = options.protocols.find((protocol) => protocol.name === box.value);
    box.checked = chosen.includes(box.value) || (chosen.includes("all") && entry.in_all);
  }
  for (const name of [...NUMBERS, "dataset", "numbers", "cache_policy", "store", "data", "ranges"]) {
    if (values[name] !== undefined) form.elements[name].value = values[name];
  }
  if (values.query_share !== undefined) form.elements.query_percent.value = String(Number((values.query_share * 100).toPrecision(12)));
  if (values.round_trip_us !== undefined) form.elements.round_trip_ms.value = String(values.round_trip_us / 1000);
  if (values.ranges) get("own-ranges").open = true;
  showSupplied();
}

function showSupplied() {
  const supplied = form.elements.dataset.value === "supplied";
  get("supplied").hidden = !supplied;
}

/** A number if it is written as one; else the text, for the server to complain of. */
function written(text) {
  const trimmed = text.trim();
  return trimmed !== "" && Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
}

function readForm() {
  const fields = form.elements;
  const values = {
    protocols: [...form.querySelectorAll("input[name=protocol]:checked")].map((box) => box.value),
    dataset: fields.dataset.value,
    numbers: fields.numbers.value,
    cache_policy: fields.cache_policy.value,
    store: fields.store.value,
  };
  for (const name of NUMBERS) values[name] = written(fields[name].value);
  const percent = written(fields.query_percent.value);
  values.query_share = typeof percent === "number" ? percent / 100 : percent;
  const milliseconds = written(fields.round_trip_ms.value);
  values.round_trip_us = typeof milliseconds === "number" ? Math.round(milliseconds * 1000) : milliseconds;
  if (values.dataset === "supplied") {
    values.data = fields.data.value;
    if (fields.records.value.trim() === "") values.records = 0;
  }
  if (fields.ranges.value.trim() !== "") values.ranges = fields.ranges.value;
  return values;
}

const SHOWN_AT = { query_share: "query_percent", query_size: "query_percent", round_trip_us: "round_trip_ms" };

function clearErrors() {
  for (const note of form.querySelectorAll(".error")) note.hidden = true;
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
}

function showErrors(errors) {
  const rest = [];
  let first;
  for (const { field, message } of errors) {
    const name = SHOWN_AT[field] ?? field;
    const note = get(`error-${name}`);
    if (!note) {
      rest.push(`${field}: ${message}`);
      continue;
    }
    note.textContent = note.hidden ? message : `${note.textContent}; ${message}`;
    note.hidden = false;
    const input = name === "protocols" ? form.querySelector("input[name=protocol]") : form.elements[name];
    if (name === "ranges") get("own-ranges").open = true;
    input.setAttribute("aria-invalid", "true");
    first ??= input;
  }
  if (rest.length) {
    get("form-error").textContent = rest.join("; ");
    get("form-error").hidden = false;
  }
  first?.focus();
}

/** Takes what was shown of a run off the page, at once: none of it is to be taken for the next run's. */
function clearRun(title, status) {
  get("current-title").textContent = title;
  get("status").textContent = status;
  get("plots").replaceChildren();
  get("tables").replaceChildren();
  get("progress").value = 0;
  for (const id of ["download", "progress", "stop"]) get(id).hidden = true;
}

async function submit(event) {
  event?.preventDefault();
  clearErrors();
  const values = readForm();
  const before = following;
  following = 0;
  clearRun("New run", "Sending it.");
  get("permalink").hidden = true;
  get("link-note").hidden = true;
  let accepted = false;
  get("run").disabled = true;
  try {
    const { ok, body } = await ask("/api/runs", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(values),
    });
    if (ok) {
      accepted = true;
      linkTo(values);
      get("current-title").focus({ preventScroll: true });
      get("current").hidden = false;
      get("current").scrollIntoView();
      follow(body.id, values);
    } else if (body.errors) {
      showErrors(body.errors);
    } else {
      showErrors([{ field: "", message: body.message ?? "the server refused" }].map(({ message }) => ({ field: "Not started", message })));
    }
  } catch {
    showErrors([{ field: "Not started", message: "the server does not answer" }]);
  } finally {
    get("run").disabled = false;
    // A form that was refused is no run: what was there before it is shown again.
    if (!accepted && before) follow(before);
    else if (!accepted) get("current").hidden = true;
  }
}

/* ---- the link ---- */

function linkTo(values) {
  const whole = `#run=${encodeURIComponent(JSON.stringify(values))}`;
  const { data, ...small } = values;
  const fits = whole.length <= LINK_CHARACTERS_MAX;
  const link = fits ? whole : `#run=${encodeURIComponent(JSON.stringify(small))}`;
  get("permalink").href = link;
  get("permalink").hidden = false;
  get("link-note").textContent = "The data is too long for a link: the link has everything else, the values must be pasted again.";
  get("link-note").hidden = fits;
  history.replaceState(null, "", link);
}

function runInLink() {
  if (!location.hash.startsWith("#run=")) return undefined;
  try {
    const values = JSON.parse(decodeURIComponent(location.hash.slice(5)));
    return typeof values === "object" && values !== null ? values : undefined;
  } catch {
    get("form-error").textContent = "The link is damaged: this is the form as it usually is.";
    get("form-error").hidden = false;
    return undefined;
  }
}

/* ---- a run ---- */

function describe(state) {
  if (state.phase === "queued") return state.ahead === 0 ? "Next in the queue." : `Waiting: ${state.ahead} before it.`;
  if (state.phase === "ended") return state.finished ? "Done: every answer was right." : `Ended early: ${state.note}`;
  const { step } = state;
  if (!step) return "Starting.";
  return `${step.protocol} (${step.place} of ${state.protocols}), ${step.stage}: ${step.done.toLocaleString("en")} of ${step.of.toLocaleString("en")}`;
}

function share(state) {
  if (state.phase === "ended") return 1;
  if (!state.step) return 0;
  const part = { construction: 0, "first query": 0.6, queries: 0.62 }[state.step.stage];
  const width = { construction: 0.6, "first query": 0.02, queries: 0.38 }[state.step.stage];
  const inside = part + (width * state.step.done) / Math.max(1, state.step.of);
  return (state.step.place - 1 + inside) / Math.max(1, state.protocols);
}

async function follow(id) {
  following = id;
  follower += 1;
  const self = follower;
  const current = () => following === id && follower === self;
  clearRun(`Run ${id}`, "Asking for it.");
  get("current").hidden = false;
  get("progress").hidden = false;
  for (let wait = ""; current(); wait = "?wait=true") {
    let answer;
    try {
      answer = await ask(`/api/runs/${id}${wait}`);
    } catch {
      if (current()) get("status").textContent = "The server does not answer.";
      return;
    }
    if (!current()) return;
    if (!answer.ok) {
      get("status").textContent = answer.body.message;
      get("progress").hidden = true;
      return;
    }
    const { state, result } = answer.body;
    get("status").textContent = describe(state);
    get("progress").value = share(state);
    get("stop").hidden = state.phase === "ended";
    if (state.phase === "ended") {
      get("progress").hidden = true;
      if (result) showResult(id, result);
      listRuns();
      return;
    }
  }
}

/* ---- what it found ---- */

const perOperation = (stage, total) => total / Math.max(1, stage.operations);
const pageIo = (stage) => (stage.cost.pages ? perOperation(stage, stage.cost.pages.reads + stage.cost.pages.writes) : undefined);
const overhead = ({ cost: { traffic } }) => traffic.sent_bytes + traffic.received_bytes - traffic.result_bytes;

function shown(number) {
  if (number === undefined || number === null) return "–";
  if (number >= 100) return Math.round(number).toLocaleString("en");
  return String(Number(number.toPrecision(3)));
}

const COLUMNS = [
  ["Page I/O", pageIo],
  ["Messages", (stage) => perOperation(stage, stage.cost.traffic.messages)],
  ["Bytes", (stage) => perOperation(stage, overhead(stage))],
  ["Results", (stage) => perOperation(stage, stage.results)],
  ["Time, µs", (stage) => perOperation(stage, stage.cost.elapsed_ns) / 1000],
];
const STAGES = [["construction", "Construction, per record"], ["first_query", "First query"], ["queries", "Further queries, per query"]];

function table(caption, head, rows, kind = "") {
  const headRow = element("tr", head.map((text) => element("th", text, { scope: "col" })));
  const body = rows.map(([first, ...rest]) =>
    element("tr", [element("th", first, { scope: "row" }), ...rest.map((text) => element("td", text))]));
  const whole = element("table", [element("caption", caption), element("thead", headRow), element("tbody", body)], { class: kind });
  return element("div", whole, { class: "scroll", tabindex: "0", role: "region", "aria-label": caption });
}

function stageTable(runs, [name, caption]) {
  const rows = [];
  for (const [run, result] of runs) {
    for (const protocol of result.protocols) {
      const stage = protocol.stages.find((candidate) => candidate.stage === name);
      if (!stage) continue;
      const label = run ? `${protocol.title}, ${run}` : protocol.title;
      rows.push([label, ...COLUMNS.map(([, measure]) => shown(measure(stage)))]);
    }
  }
  return rows.length ? table(caption, ["Protocol", ...COLUMNS.map(([title]) => title)], rows) : "";
}

function sum(calls, more) {
  for (const [name, count] of Object.entries(more ?? {})) calls[name] = (calls[name] ?? 0) + count;
}

function primitiveTable(result) {
  const perProtocol = result.protocols.map((protocol) => {
    const calls = {};
    for (const { cost } of protocol.stages) {
      sum(calls, cost.client_primitives);
      sum(calls, cost.server_primitives);
    }
    return [protocol, calls];
  });
  const kinds = [...new Set(perProtocol.flatMap(([, calls]) => Object.keys(calls)))].sort();
  if (!kinds.length) return "";
  const rows = perProtocol.map(([protocol, calls]) => [protocol.title, ...kinds.map((kind) => shown(calls[kind] ?? 0))]);
  return table("Primitive calls, both sides, whole run", ["Protocol", ...kinds.map((kind) => kind.replaceAll("_", " "))], rows);
}

function sizeTable(result) {
  const rows = result.protocols.map((protocol) => [
    protocol.title, shown(protocol.ciphertext_bytes), shown(protocol.state_bytes), shown(protocol.stored_bytes),
    typeof protocol.ending === "string" ? protocol.ending : `failed: ${protocol.ending.failed}`,
  ]);
  return table("Sizes in bytes, and how it ended", ["Protocol", "Ciphertext", "Client state", "Stored", "Ending"], rows);
}

function plot(ids) {
  const caption = `Page I/O, messages and bytes of each protocol, per insertion and per query; ${ids.length > 1 ? "runs" : "run"} ${ids.join(", ")}`;
  const image = element("img", [], { src: `/api/plot.svg?runs=${ids.join(",")}`, alt: `${caption}. The tables give the numbers.` });
  return element("figure", [image, element("figcaption", caption)]);
}

function showResult(id, result) {
  const about = `${result.request.records.toLocaleString("en")} records (${result.request.dataset}), ${result.request.queries.toLocaleString("en")} queries, seed ${result.request.seed}, commit ${result.environment.commit.slice(0, 12)}, ${result.environment.machine}`;
  get("plots").replaceChildren(plot([id]));
  get("tables").replaceChildren(element("p", about, { class: "hint" }),
    ...STAGES.map((stage) => stageTable([["", result]], stage)), primitiveTable(result), sizeTable(result));
  get("download").href = `/api/runs/${id}/result.json`;
  get("download").setAttribute("download", `arras-lab-run-${id}.json`);
  get("download").hidden = false;
}

/* ---- all runs ---- */

function runRow({ id, request, state }) {
  const box = element("input", [], { type: "checkbox", "aria-label": `Compare run ${id}` });
  box.checked = chosenRuns.has(id);
  box.disabled = state.phase !== "ended";
  box.addEventListener("change", () => {
    if (box.checked) chosenRuns.add(id);
    else chosenRuns.delete(id);
    get("compare").disabled = chosenRuns.size < 2;
  });
  const open = element("button", `Run ${id}`, { type: "button" });
  open.addEventListener("click", () => {
    get("current").hidden = false;
    get("permalink").hidden = true;
    get("link-note").hidden = true;
    get("current").scrollIntoView();
    follow(id);
  });
  return element("tr", [
    element("td", box), element("td", open),
    element("td", request.protocols.map(titleOf).join(", ")),
    element("td", `${request.records.toLocaleString("en")} ${request.dataset}, ${request.queries.toLocaleString("en")} queries, seed ${request.seed}`),
    element("td", describe(state)),
  ]);
}

async function listRuns() {
  const { ok, body } = await ask("/api/runs").catch(() => ({ ok: false }));
  if (!ok) return;
  if (!body.length) {
    get("run-list").replaceChildren(element("p", "None yet.", { class: "hint" }));
    return;
  }
  const head = element("tr", ["Compare", "Run", "Protocols", "What", "State"].map((text) => element("th", text, { scope: "col" })));
  const whole = element("table", [element("thead", head), element("tbody", body.map(runRow))], { class: "words" });
  get("run-list").replaceChildren(element("div", whole, { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs" }));
}

async function compareRuns() {
  const ids = [...chosenRuns].sort((one, other) => one - other).slice(0, 6);
  const answers = await Promise.all(ids.map((id) => ask(`/api/runs/${id}`)));
  const runs = answers.filter(({ body }) => body.result).map(({ body }) => [`run ${body.id}`, body.result]);
  const comparison = plot(runs.map(([name]) => name.slice(4)));
  get("comparison").replaceChildren(element("h3", `Side by side: ${runs.map(([name]) => name).join(", ")}`, { tabindex: "-1", id: "comparison-title" }),
    comparison, ...STAGES.map((stage) => stageTable(runs, stage)));
  get("comparison-title").focus();
}

async function showLeakage() {
  const { ok, body } = await ask("/api/leakage");
  if (!ok) return;
  const words = (list) => (list.length ? list.join("; ") : "nothing");
  const rows = body.map((row) => [row.title, words(row.snapshot), words(row.search), words(row.update), words(row.attacks)]);
  get("leak-table").replaceChildren(...table("What an attacker learns", ["Protocol", "From a copy of the store", "Added by each search", "Added by each write", "Published attacks"], rows, "words").childNodes);
}

/* ---- start ---- */

async function begin() {
  const { ok, body } = await ask("/api/options");
  if (!ok) throw new Error("no options");
  options = body;
  buildForm();
  const usual = { ...options.defaults, decimals: 0, protocols: [options.protocols.find((one) => one.name === "bplus_clww")?.name ?? options.protocols[0].name] };
  setForm(usual);
  form.addEventListener("submit", submit);
  form.elements.dataset.addEventListener("change", () => {
    showSupplied();
    if (form.elements.dataset.value === "supplied") form.elements.records.value = "";
    else if (form.elements.records.value.trim() === "") form.elements.records.value = options.defaults.records;
  });
  get("choose-all").addEventListener("click", () => setForm({ protocols: ["all"] }));
  get("choose-none").addEventListener("click", () => setForm({ protocols: [] }));
  get("data-file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file) form.elements.data.value = await file.text();
  });
  get("stop").addEventListener("click", () => ask(`/api/runs/${following}/stop`, { method: "POST" }));
  get("compare").addEventListener("click", compareRuns);
  get("permalink").addEventListener("click", (event) => {
    event.preventDefault();
    history.replaceState(null, "", get("permalink").href);
    navigator.clipboard?.writeText(location.href).catch(() => {});
    get("link-note").textContent = "The link is in the address bar (and copied, if the browser allows).";
    get("link-note").hidden = false;
  });
  listRuns();
  showLeakage();
  const linked = runInLink();
  if (linked) {
    setForm({ ...usual, ...linked });
    await submit();
  }
}

begin().catch(() => {
  get("form-error").textContent = "The server does not answer; reload the page when it runs again.";
  get("form-error").hidden = false;
});
