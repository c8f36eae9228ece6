import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { openRead, publish, restore } from "../../../test/contract/store/harness.ts";
import { DirectoryGrant } from "../../api/wire/grant.ts";
import type { CheckpointStore } from "../checkpoint-store.ts";
import { digestOf } from "../manifest.ts";
import { openForRead, openForWrite } from "../open.ts";
import { directoryStore } from "./store.ts";

const ref = { namespace: "team-a", checkpointId: "c1" };
const files = { "checkpoint.img": "state", "pages.img": "pages" };
const ttlMilliseconds = 60_000;

let root: string;
let checkpoint: string;
let s: { store: CheckpointStore };
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "ramet-store-read-"));
  checkpoint = join(root, "team-a", "checkpoints", "c1");
  s = { store: directoryStore({ root }) };
});
afterEach(() => rm(root, { recursive: true }));

async function rehashed(digest: string): Promise<readonly string[]> {
  const session = await openRead(s, ref, digest);
  await session.release();
  return session.rehashed;
}

it("hashes a file with a changed fingerprint once and records the new fingerprint", async () => {
  const { manifestDigest } = await publish(s, ref, files);
  expect(await rehashed(manifestDigest)).toEqual([]);
  await utimes(join(checkpoint, "image", "pages.img"), 1, 1);
  expect(await rehashed(manifestDigest)).toEqual(["pages.img"]);
  expect(await rehashed(manifestDigest)).toEqual([]);
});

it("finds content that was replaced with its size and times if the store verifies restores, and not otherwise", async () => {
  const { manifestDigest } = await publish(s, ref, files);
  const path = join(checkpoint, "image", "pages.img");
  const { atimeMs, mtimeMs } = await stat(path);
  await chmod(path, 0o600);
  await writeFile(path, "PAGES");
  await utimes(path, atimeMs / 1000, mtimeMs / 1000);
  const forged = JSON.stringify(await recordOf("pages.img"));
  const fingerprints = join(checkpoint, "fingerprints.json");
  await writeFile(
    fingerprints,
    (await readFile(fingerprints, "utf8")).replace(/"pages.img":\{[^}]*\}/, `"pages.img":${forged}`),
  );
  expect(await restore(s, ref, manifestDigest)).toEqual({ ...files, "pages.img": "PAGES" });
  const verifying = { store: directoryStore({ root, verifyRestores: true }) };
  await expect(restore(verifying, ref, manifestDigest)).rejects.toMatchObject({
    code: "CheckpointLost",
    message: expect.stringContaining("its file pages.img was changed after publication") as string,
  });
});

async function recordOf(file: string) {
  const { size, ino, mtimeNs } = await stat(join(checkpoint, "image", file), { bigint: true });
  return { sizeBytes: String(size), inode: String(ino), modifiedNanoseconds: String(mtimeNs) };
}

it("hashes all files at each restore if the store verifies restores", async () => {
  const { manifestDigest } = await publish(s, ref, files);
  s = { store: directoryStore({ root, verifyRestores: true }) };
  for (let restores = 0; restores < 2; restores++) {
    expect(await rehashed(manifestDigest)).toEqual(["checkpoint.img", "pages.img"]);
  }
});

it.each(["absent", "unreadable"])("hashes all files once if the fingerprints are %s", async (how) => {
  const { manifestDigest } = await publish(s, ref, files);
  await rm(join(checkpoint, "fingerprints.json"));
  if (how === "unreadable") await writeFile(join(checkpoint, "fingerprints.json"), "{{");
  expect(await rehashed(manifestDigest)).toEqual(["checkpoint.img", "pages.img"]);
  expect(await rehashed(manifestDigest)).toEqual([]);
});

it("verifies a checkpoint that was copied from another disk, and uses shared content for missing files", async () => {
  const { manifestDigest } = await publish(s, ref, files);
  const copy = join(checkpoint, "image", "pages.img.copy");
  await writeFile(copy, files["pages.img"]);
  await rename(copy, join(checkpoint, "image", "pages.img"));
  expect(await rehashed(manifestDigest)).toEqual(["pages.img"]);
  await rm(join(checkpoint, "image", "pages.img"));
  expect(await restore(s, ref, manifestDigest)).toEqual(files);
  await rm(join(root, "team-a", "content"), { recursive: true });
  await mkdir(join(root, "team-a", "content", "sha256"), { recursive: true });
  await expect(restore(s, ref, manifestDigest)).rejects.toMatchObject({ code: "CheckpointLost" });
});

it("rejects a symbolic link in place of a file", async () => {
  const { manifestDigest } = await publish(s, ref, files);
  const elsewhere = join(root, "elsewhere");
  await writeFile(elsewhere, files["pages.img"]);
  await rm(join(checkpoint, "image", "pages.img"));
  await symlink(elsewhere, join(checkpoint, "image", "pages.img"));
  await expect(restore(s, ref, manifestDigest)).rejects.toMatchObject({ code: "CheckpointLost" });
  expect((await s.store.scrub()).damaged).toMatchObject([{ file: "pages.img" }]);
});

it("does not publish a symbolic link", async () => {
  const grant = await s.store.grantWrite({ ...ref, ttlMilliseconds });
  const session = await openForWrite(grant);
  await symlink("/etc/hostname", join(session.stagingPath, "pages.img"));
  await expect(session.publish({} as never)).rejects.toMatchObject({ code: "InvalidArgument" });
});

it("rejects a symbolic link in place of a directory, and does not remove its target", async () => {
  await publish(s, { ...ref, namespace: "team-b" }, files);
  await publish(s, ref, files);
  await rename(join(root, "team-a", "checkpoints"), join(root, "team-a", "moved"));
  await symlink(join(root, "team-b", "checkpoints"), join(root, "team-a", "checkpoints"));
  await expect(s.store.remove(ref)).rejects.toMatchObject({ code: "StoreUnavailable" });
  expect(await s.store.has({ ...ref, namespace: "team-b" })).toBe(true);
});

it("rejects a grant whose path belongs to another namespace or contains '..'", async () => {
  const { manifestDigest } = await publish(s, ref, files);
  await publish(s, { ...ref, namespace: "team-b" }, files);
  const grant = DirectoryGrant.parse(await s.store.grantRead({ ...ref, manifestDigest, ttlMilliseconds }));
  for (const path of [join(root, "team-b"), `${root}/team-b/../team-a`]) {
    await expect(openForRead({ ...grant, path })).rejects.toMatchObject({ code: "GrantInvalid" });
  }
  for (const path of [root, join(root, "nowhere")]) {
    await expect(openForRead({ ...grant, path })).rejects.toMatchObject({ code: "StoreUnavailable" });
  }
});

it("rejects a manifest of a newer version or of another checkpoint", async () => {
  await publish(s, ref, files);
  const path = join(checkpoint, "manifest.json");
  const manifest = JSON.parse(await readFile(path, "utf8")) as Record<string, unknown>;
  const put = async (value: unknown) => {
    await rm(path, { force: true });
    await writeFile(path, JSON.stringify(value));
    return digestOf(Buffer.from(JSON.stringify(value)));
  };
  const newer = await put({ ...manifest, v: 5, files: "in another form" });
  await expect(restore(s, ref, newer)).rejects.toMatchObject({ code: "CheckpointTooNew" });
  const foreign = await put({ ...manifest, namespace: "team-b" });
  await expect(restore(s, ref, foreign)).rejects.toMatchObject({
    code: "CheckpointLost",
    message: expect.stringContaining("team-b/c1") as string,
  });
  expect((await s.store.scrub()).damaged).toHaveLength(1);
});

it("reports foreign files in a sweep without removing them", async () => {
  await publish(s, ref, files);
  const foreign = [join(root, "lost+found"), join(root, "team-a", "staging", "notes.txt")];
  await mkdir(foreign[0]!);
  await writeFile(foreign[1]!, "mine");
  const report = await s.store.sweep({ livenessOf: () => Promise.resolve("finished"), olderThanMilliseconds: -60_000 });
  expect(report.foreign.sort()).toEqual(foreign);
  expect(await readFile(foreign[1]!, "utf8")).toBe("mine");
});

it("does not report an empty directory, which a node mounts before the first checkpoint", async () => {
  await publish(s, ref, files);
  await mkdir(join(root, "team-b"));
  const report = await s.store.sweep({ livenessOf: () => Promise.resolve("finished"), olderThanMilliseconds: 0 });
  expect(report.foreign).toEqual([]);
});

it("removes old files of probes, and keeps those of a running probe", async () => {
  await publish(s, ref, files);
  const [old, current] = [join(root, ".probe.1"), join(root, ".probe.2")];
  for (const path of [old, current]) await writeFile(path, "x");
  const hours = (count: number): Date => new Date(Date.now() - count * 3_600_000);
  await utimes(old, hours(2), hours(2));
  const sweep = (dryRun: boolean) =>
    s.store.sweep({ livenessOf: () => Promise.resolve("finished"), olderThanMilliseconds: 3_600_000, dryRun });
  expect(await sweep(true)).toMatchObject({ removedRests: 1, foreign: [] });
  expect(await sweep(false)).toMatchObject({ removedRests: 1, foreign: [] });
  expect(await readdir(root)).toEqual(expect.arrayContaining([".probe.2"]));
  expect(await readdir(root)).not.toContain(".probe.1");
});
