import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { silentLog } from "../../base/log.ts";
import { systemClock } from "../../base/clock.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { dropLayers } from "./layer-directories.ts";

/** A stand-in for a cluster with the namespaces a and b, and without checkpoints and sandboxes, in two hours. */
const client = {
  clock: { ...systemClock, now: () => new Date(Date.now() + 7_200_000) },
  of: () => ({ list: () => Promise.resolve({ items: [] }) }),
  resource: () => ({ list: () => Promise.resolve({ items: ["a", "b"].map((name) => ({ metadata: { name } })) }) }),
} as unknown as KubeClient;

/** A stand-in for `ramet-link layer --drop`, which needs a lock that is a file. */
const script = `#!/bin/sh
if [ -d "$3.lock" ] || [ -L "$3.lock" ]; then echo "$3.lock is not a file"; exit 1; fi
rm -f "$3.lock"
for each in "$3" "$3.draft"; do if [ -e "$each" ]; then mv "$each" "$each.dropped"; fi; done
echo '{"dropped":true}'
`;

it("removes the layers of all namespaces although a cell has written other things, and what deleted namespaces leave", async () => {
  const base = await mkdtemp(join(tmpdir(), "layer-directories-"));
  onTestFinished(() => rm(base, { recursive: true, force: true }));
  const [directory, link] = [join(base, "layers"), join(base, "link")];
  const [hostile, other] = [join(directory, "a"), join(directory, "b")];
  await writeFile(link, script, { mode: 0o755 });
  await Promise.all(
    ["a/one.digest.lock", "b/two.digest", "deleted/four.digest", "deleted-before"].map((name) =>
      mkdir(join(directory, name), { recursive: true }),
    ),
  );
  await writeFile(join(directory, "not-a-namespace"), "");
  await symlink(join(base, "outside"), join(hostile, "three.digest.lock"));
  // Without their suffix these are the namespace's directory and its parent.
  const files = ["a/.lock", "a/..lock", "a/...lock", "a/.draft", "b/two.digest.lock"];
  await Promise.all(files.map((name) => writeFile(join(directory, name), "")));
  const warnings: unknown[] = [];
  const log = { ...silentLog, warn: (fields: Record<string, unknown>) => void warnings.push(fields["layer"]) };
  const trees = { remove: (path: string) => rm(path, { recursive: true, force: true }) };
  expect(await dropLayers(directory, { trees, link, log }, client)).toEqual(
    ["b/two.digest", "deleted/four.digest", "deleted", "deleted-before"].map((name) => join(directory, name)),
  );
  expect(warnings.toSorted()).toEqual([join(hostile, "one.digest"), join(hostile, "three.digest")]);
  expect(await readdir(other)).toEqual([]);
  expect((await readdir(base)).toSorted()).toEqual(["layers", "link"]);
  expect((await readdir(directory)).toSorted()).toEqual(["a", "b", "not-a-namespace"]);
});
