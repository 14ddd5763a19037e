// The lab's website in a real browser, used as a person would: `node session.mjs URL CHROMIUM [FOLDER-FOR-PICTURES]`.
//
// Prints one line of JSON a step: {"step": name, "ok": true} or {"step": name, "ok": false, "why": text}.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { chromium } from "playwright-core";

const [url, executablePath, pictures] = process.argv.slice(2);
const origin = new URL(url).origin;
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const strangers = [];
const complaints = [];

/** A page that notes what it should not do: fetch from elsewhere, complain in the console. */
async function open(address = url, settings = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, acceptDownloads: true, ...settings });
  // Ample: a busy machine must not fail the test.
  context.setDefaultTimeout(120000);
  const page = await context.newPage();
  page.on("request", (request) => {
    if (!request.url().startsWith(`${origin}/`) && !request.url().startsWith("data:")) strangers.push(request.url());
  });
  // A refused form is a 422 that the page explains; the browser logs it as well.
  page.on("console", (message) => {
    if (message.type() === "error" && !/status of (422|404)/.test(message.text())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(address);
  await page.locator("input[name=protocol]").first().waitFor();
  return page;
}

async function step(name, action) {
  try {
    await action();
    console.log(JSON.stringify({ step: name, ok: true }));
  } catch (error) {
    console.log(JSON.stringify({ step: name, ok: false, why: String(error.stack ?? error).slice(0, 2000) }));
  }
}

const picture = (page, name) => (pictures ? page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true }) : undefined);
const status = (page) => page.locator("#status").textContent();

/** The end of the run that is being followed, or of the one with that number. */
const ended = (page, id) => page.waitForFunction((wanted) => {
  const [title, status] = ["current-title", "status"].map((name) => document.getElementById(name).textContent);
  return /^(Done|Ended)/.test(status) && (wanted === undefined || title === `Run ${wanted}`);
}, id, { timeout: 120000 });

/** Sends the form with `send`; the number of the run that the server made of it. */
async function sent(page, send) {
  const accepted = page.waitForResponse((response) => response.request().method() === "POST" && response.url().endsWith("/api/runs"));
  await send();
  return (await (await accepted).json()).id;
}

async function choose(page, protocols, fields = {}) {
  await page.getByRole("button", { name: "None" }).click();
  for (const name of protocols) await page.locator(`input[name=protocol][value=${name}]`).check();
  for (const [name, value] of Object.entries(fields)) await page.locator(`[name=${name}]`).fill(String(value));
}

async function start(page, protocols, fields) {
  await choose(page, protocols, fields);
  return sent(page, () => page.locator("#run").click());
}

/** The numbers of the tables but the times, which differ from run to run. */
const numbers = (page) => page.locator("#tables").evaluate((tables) =>
  [...tables.querySelectorAll("table")].map((table) => {
    const head = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent);
    return [...table.querySelectorAll("tbody tr")].map((row) =>
      [...row.cells].filter((_, at) => !head[at].startsWith("Time")).map((cell) => cell.textContent));
  }));

const page = await open();
let first;

await step("the form shows every protocol with what it leaks", async () => {
  const names = await page.locator("input[name=protocol]").evaluateAll((boxes) => boxes.map((box) => box.value));
  for (const name of ["plain", "bplus_clww", "bplus_lewi_wu", "pope", "path_oram", "logarithmic_brc", "kerschbaum_tueno"]) {
    assert.ok(names.includes(name), `${name} of ${names}`);
  }
  assert.match(await page.locator("#protocols").textContent(), /shows the order/);
  await picture(page, "form");
});

await step("a run of 10,000 records shows progress within a second and is done in five", async () => {
  await choose(page, ["bplus_clww"], { records: 10000, queries: 100, seed: 42 });
  const began = Date.now();
  const id = await sent(page, () => page.locator("#run").click());
  await page.waitForFunction(() => document.getElementById("progress").value > 0, null, { timeout: 60000, polling: 20 });
  const shown = Date.now() - began;
  await ended(page, id);
  const done = Date.now() - began;
  assert.match(await status(page), /every answer was right/);
  // Reported, not judged: a busy machine must not fail the test.
  console.error(`first progress after ${shown} ms, done after ${done} ms`);
});

await step("a new run takes what the one before showed off the page at once", async () => {
  assert.ok((await page.locator("#tables table").count()) >= 1 && (await page.locator("#plots img").count()) === 1);
  let go;
  const held = new Promise((resolve) => { go = resolve; });
  await page.route("**/api/runs", async (route) => {
    if (route.request().method() === "POST") await held;
    await route.continue();
  });
  await choose(page, ["plain"], { records: 200, queries: 5 });
  await page.locator("#run").click();
  // The server has not even been asked yet.
  const seen = await page.evaluate(() => ({
    status: document.getElementById("status").textContent,
    shown: document.querySelectorAll("#plots *, #tables *").length,
    links: [...document.querySelectorAll("#download, #permalink")].filter((link) => !link.hidden).length,
    progress: document.getElementById("progress").value,
  }));
  const accepted = sent(page, async () => go());
  await ended(page, await accepted);
  await page.unroute("**/api/runs");
  assert.deepEqual(seen, { status: "Sending it.", shown: 0, links: 0, progress: 0 });
  assert.match(await page.locator("#tables .hint").first().textContent(), /200 records/);
});

await step("a refused form leaves what the run before showed", async () => {
  const before = await numbers(page);
  await page.locator("[name=queries]").fill("a few");
  await page.locator("#run").click();
  await page.locator("#error-queries").waitFor();
  await ended(page);
  assert.deepEqual(await numbers(page), before);
});

await step("progress moves while a run goes on", async () => {
  const id = await start(page, ["bplus_clww"], { records: 3000, queries: 20, round_trip_ms: 1 });
  const seen = new Set();
  const going = { yet: true };
  const over = ended(page, id).finally(() => { going.yet = false; });
  while (going.yet) {
    seen.add(await page.locator("#progress").evaluate((bar) => bar.value));
    await page.waitForTimeout(50);
  }
  await over;
  assert.ok(seen.size >= 4, `${[...seen]}`);
});

await step("the plot is an image with bars for each part of the run", async () => {
  await ended(page, await start(page, ["plain", "bplus_clww"], { records: 1000, queries: 10, round_trip_ms: 0, seed: 5 }));
  const image = page.locator("#plots img").first();
  await page.waitForFunction(() => [...document.querySelectorAll("#plots img")].every((one) => one.complete && one.naturalWidth > 200));
  assert.ok((await image.getAttribute("alt")).length > 20);
  const svg = await page.evaluate(async (source) => (await fetch(source)).text(), await image.getAttribute("src"));
  // Read here: the page's policy forbids styles of a document's own, and the chart has one.
  const parts = { title: svg.match(/<title[^>]*>([^<]+)</)?.[1], text: svg, bars: (svg.match(/<(rect|polygon)/g) ?? []).length };
  assert.match(svg, /^\s*(<\?xml[^>]*>)?\s*<svg/);
  assert.ok(parts.title, "a title");
  assert.match(parts.text, /No encryption/);
  assert.match(parts.text, /CLWW/);
  assert.ok(parts.bars >= 4, `${parts.bars} bars`);
  first = await numbers(page);
  assert.ok(first.length >= 4 && first[0].length === 2, JSON.stringify(first));
  await picture(page, "results");
});

await step("the raw results download as JSON with seed and commit", async () => {
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#download").click()]);
  const result = JSON.parse(await readFile(await download.path(), "utf8"));
  assert.equal(result.request.seed, 5);
  assert.ok(result.environment.commit);
  assert.deepEqual(result.protocols.map((one) => one.protocol), ["plain", "bplus_clww"]);
});

await step("the link of a run gives the same numbers again", async () => {
  const link = await page.locator("#permalink").evaluate((anchor) => anchor.href);
  const again = await open(link);
  await ended(again);
  assert.deepEqual(await numbers(again), first);
  await again.reload();
  await again.locator("input[name=protocol]").first().waitFor();
  await ended(again);
  assert.deepEqual(await numbers(again), first);
  await again.context().close();
});

await step("bad data is a message by its field, naming the line, and the focus goes there", async () => {
  await page.locator("[name=dataset]").selectOption("supplied");
  await page.locator("[name=data]").fill("salary\n1000\n20x0\n3000\n");
  await page.locator("#run").click();
  const note = page.locator("#error-data");
  await note.waitFor();
  assert.match(await note.textContent(), /line 3, column 1: "20x0" is not a number/);
  const focused = await page.evaluate(() => [document.activeElement.name, document.activeElement.getAttribute("aria-invalid"), document.activeElement.getAttribute("aria-describedby")]);
  assert.deepEqual(focused, ["data", "true", "error-data"]);
  await picture(page, "bad-data");
});

await step("other mistakes are by their fields as well", async () => {
  await page.locator("[name=data]").fill("5000000000\n");
  await page.locator("[name=cache_pages]").fill("0");
  await page.locator("[name=page_bytes]").fill("8");
  await page.locator("[name=queries]").fill("a few");
  await page.locator("#run").click();
  await page.locator("#error-cache_pages").waitFor();
  assert.match(await page.locator("#error-data").textContent(), /outside i32/);
  assert.match(await page.locator("#error-page_bytes").textContent(), /smaller than an entry/);
  assert.match(await page.locator("#error-queries").textContent(), /not a whole number/);
});

await step("pasted data runs", async () => {
  await page.locator("[name=data]").fill(Array.from({ length: 300 }, (_, at) => (at * 37) % 101 - 50).join("\n"));
  await page.locator("[name=cache_pages]").fill("128");
  await page.locator("[name=page_bytes]").fill("4096");
  await page.locator("[name=queries]").fill("10");
  await ended(page, await sent(page, () => page.locator("#run").click()));
  assert.match(await status(page), /every answer was right/);
  assert.match(await page.locator("#tables .hint").first().textContent(), /300 records \(supplied\)/);
  await page.locator("[name=dataset]").selectOption("uniform");
});

await step("a second run waits for the first, and a stopped run keeps what it finished", async () => {
  const slow = await open();
  const stopped = await start(slow, ["plain", "bplus_clww"], { records: 20000, queries: 10, round_trip_ms: 10 });
  await slow.waitForFunction(() => /of 2\)/.test(document.getElementById("status").textContent), null, { timeout: 60000 });
  const second = await start(page, ["plain"], { records: 500, queries: 5, round_trip_ms: 0 });
  await page.waitForFunction(() => /Next in the queue|Waiting: 1/.test(document.getElementById("status").textContent));
  await slow.locator("#stop").click();
  await ended(slow, stopped);
  assert.match(await status(slow), /Ended early: stopped; what was finished is here/);
  assert.ok((await slow.locator("#tables table").count()) >= 1);
  await ended(page, second);
  await slow.context().close();
});

await step("runs are compared side by side", async () => {
  const boxes = page.locator("#run-list input[type=checkbox]:enabled");
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  await page.locator("#compare").click();
  await page.locator("#comparison table").first().waitFor();
  assert.match(await page.locator("#comparison-title").textContent(), /Side by side: run \d+, run \d+/);
  const labels = await page.locator("#comparison tbody th").allTextContents();
  assert.ok(new Set(labels.map((label) => label.match(/run \d+/)?.[0])).size === 2, labels.join("; "));
  await picture(page, "comparison");
});

await step("the keyboard is enough", async () => {
  const keys = await open();
  await keys.keyboard.press("Tab");
  assert.equal(await keys.evaluate(() => document.activeElement.className), "skip");
  const reach = async (selector) => {
    for (let presses = 0; presses < 80; presses += 1) {
      if (await keys.evaluate((what) => document.activeElement.matches(what), selector)) return;
      await keys.keyboard.press("Tab");
    }
    assert.fail(`${selector} is not reached`);
  };
  await reach("input[name=protocol][value=plain]");
  if (!(await keys.locator("input[name=protocol][value=plain]").isChecked())) await keys.keyboard.press("Space");
  await reach("[name=records]");
  await keys.keyboard.press("Control+A");
  await keys.keyboard.type("400");
  await reach("#run");
  await ended(keys, await sent(keys, () => keys.keyboard.press("Enter")));
  assert.match(await status(keys), /every answer was right/);
  await keys.context().close();
});

await step("a phone needs no sideways scrolling, and dark is dark", async () => {
  const phone = await open(url, { viewport: { width: 375, height: 740 }, colorScheme: "dark", isMobile: true, hasTouch: true });
  await ended(phone, await start(phone, ["plain"], { records: 300, queries: 5 }));
  await phone.waitForFunction(() => [...document.querySelectorAll("#plots img")].every((one) => one.complete));
  const [wide, screen, ground] = await phone.evaluate(() => [document.documentElement.scrollWidth, innerWidth, getComputedStyle(document.body).backgroundColor]);
  assert.ok(wide <= screen, `${wide} > ${screen}`);
  const lightness = ground.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
  assert.ok(lightness < 200, ground);
  await picture(phone, "phone-dark");
  await phone.context().close();
});

await step("what leaks is listed for every protocol", async () => {
  const rows = await page.locator("#leak-table tbody tr").count();
  assert.equal(rows, await page.locator("input[name=protocol]").count());
});

await step("nothing came from elsewhere and nothing was complained of", async () => {
  assert.deepEqual(strangers, []);
  assert.deepEqual(complaints, []);
});

await browser.close();
