// Runs session.js in mongosh: `node run.mjs URI [--extra]`, from a folder where mongosh is installed. The shell takes
// no arguments for its script, so `--extra` goes by the environment; its own files go into a folder that is removed.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [uri, ...rest] = process.argv.slice(2);
if (!uri || rest.some((argument) => argument !== "--extra")) {
  console.error("usage: node run.mjs URI [--extra]");
  process.exit(1);
}
const here = dirname(fileURLToPath(import.meta.url));
const home = mkdtempSync(join(tmpdir(), "mongosh-"));
try {
  const shell = join(here, "node_modules", ".bin", "mongosh");
  const run = spawnSync(shell, [uri, "--quiet", "--norc", "--file", join(here, "session.js")], {
    env: { ...process.env, HOME: home, ARRAS_EXTRA: rest.length > 0 ? "1" : "" },
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (run.error) console.error(String(run.error));
  process.exitCode = run.status ?? 1;
} finally {
  rmSync(home, { recursive: true, force: true });
}
