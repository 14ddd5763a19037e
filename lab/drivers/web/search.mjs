// The page of `arras search serve` in a real browser, used as a person would: `node search.mjs URL CHROMIUM [FOLDER-FOR-PICTURES]`.
// Its store has the texts of `xtask/src/suite/web.rs`.
//
// Prints one line of JSON a step: {"step": name, "ok": true} or {"step": name, "ok": false, "why": text}.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const [url, executablePath, pictures] = process.argv.slice(2);
const { origin } = new URL(url);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const strangers = [];
const complaints = [];

/** A page that notes what it should not do: fetch from elsewhere, complain in the console. */
async function open(settings = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...settings });
  // Ample: a busy machine must not fail the test.
  context.setDefaultTimeout(120000);
  const page = await context.newPage();
  page.on("request", (request) => {
    if (!request.url().startsWith(`${origin}/`) && !request.url().startsWith("data:")) strangers.push(request.url());
  });
  // A refused query is a 422 that the page explains, what has no token a 403; the browser logs them as well.
  page.on("console", (message) => {
    if (message.type() === "error" && !/status of (422|403)/.test(message.text())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  await page.goto(url);
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

const picture = (page, name) => (pictures ? page.screenshot({ path: `${pictures}/search-${name}.png`, fullPage: true }) : undefined);

async function ask(page, query) {
  await page.getByLabel("Query").fill(query);
  await Promise.all([page.waitForNavigation(), page.getByRole("button", { name: "Search" }).click()]);
}

/** A value of what the server saw. */
const seen = (page, name) => page.locator(`aside dt:text-is("${name}") + dd`).textContent();

const page = await open();

await step("a query finds documents, with the words marked", async () => {
  await ask(page, "whale AND ship");
  assert.equal(await page.locator("#results").textContent(), "1 document matches");
  assert.match(await page.locator(".results h3").textContent(), /moby\.txt$/);
  assert.deepEqual(await page.locator(".results mark").allTextContents(), ["whales", "ship"]);
  assert.equal(await page.getByLabel("Query").inputValue(), "whale AND ship");
  await picture(page, "found");
});

await step("beside them stands what the server saw", async () => {
  // Two documents have the one word, one the other.
  assert.equal(await seen(page, "Stored entries touched"), "3");
  assert.equal(await seen(page, "Their bytes"), "96");
  assert.match(await seen(page, "Requests"), /^1, [\d,]+ bytes$/);
  assert.match(await seen(page, "Pages of results"), /^1, [\d,]+ bytes$/);
  await ask(page, "ship");
  assert.equal(await seen(page, "Stored entries touched"), "1");
});

await step("what a document says is text, not markup", async () => {
  await ask(page, "captain");
  assert.match(await page.locator(".results .line").textContent(), /<script>document\.title = 'gone'<\/script>/);
  assert.match(await page.title(), /^1 document matches: captain/);
});

await step("a mistake is said, marked, and told to who cannot see it", async () => {
  await ask(page, "whale AND (ship");
  const alert = page.getByRole("alert");
  assert.match(await alert.textContent(), /column 11: this parenthesis is never closed/);
  assert.equal(await alert.locator("mark").textContent(), "(");
  const field = page.getByLabel("Query");
  assert.equal(await field.getAttribute("aria-invalid"), "true");
  assert.match(await field.getAttribute("aria-describedby"), /\bwrong\b/);
  await picture(page, "mistake");
});

await step("back is the query before", async () => {
  await page.goBack();
  assert.equal(await page.getByLabel("Query").inputValue(), "captain");
  assert.equal(await page.locator("#results").textContent(), "1 document matches");
});

await step("the keyboard is enough, and no script is needed", async () => {
  const plain = await open({ javaScriptEnabled: false });
  // The field has the focus from the start.
  await plain.locator("#q:focus").waitFor();
  await plain.keyboard.type("whale -captain");
  await Promise.all([plain.waitForNavigation(), plain.keyboard.press("Enter")]);
  assert.equal(await plain.locator("#results").textContent(), "1 document matches");
  await plain.keyboard.press("Tab");
  assert.equal(await plain.locator(":focus").getAttribute("id"), "q");
  await plain.keyboard.press("Tab");
  assert.equal(await plain.locator(":focus").getAttribute("id"), "top");
  await plain.context().close();
});

await step("everything has a name, and headings are in order", async () => {
  await ask(page, "whale");
  const nameless = await page.evaluate(() =>
    [...document.querySelectorAll("input, select")].filter((field) => field.labels.length === 0).map((field) => field.id));
  assert.deepEqual(nameless, []);
  const levels = await page.locator("h1, h2, h3").evaluateAll((all) => all.map((one) => Number(one.tagName[1])));
  assert.equal(levels[0], 1);
  assert.ok(levels.every((level, at) => at === 0 || level <= levels[at - 1] + 1), levels.join(" "));
  assert.equal(await page.locator("html").getAttribute("lang"), "en");
});

await step("a phone needs no sideways scrolling, and dark is dark", async () => {
  const phone = await open({ viewport: { width: 375, height: 740 }, colorScheme: "dark", isMobile: true, hasTouch: true });
  await ask(phone, "whale");
  const [wide, screen, ground] = await phone.evaluate(() => [document.documentElement.scrollWidth, innerWidth, getComputedStyle(document.body).backgroundColor]);
  assert.ok(wide <= screen, `${wide} > ${screen}`);
  const lightness = ground.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
  assert.ok(lightness < 200, ground);
  await picture(phone, "phone-dark");
  await phone.context().close();
});

await step("without the token there is nothing", async () => {
  const stranger = await open();
  const answer = await stranger.goto(`${origin}/`);
  assert.equal(answer.status(), 403);
  await stranger.context().close();
});

await step("nothing came from elsewhere and nothing was complained of", async () => {
  assert.deepEqual(strangers, []);
  assert.deepEqual(complaints, []);
});

await browser.close();
