import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { imageUser } from "./image-user.ts";

let rootPath: string;
beforeEach(async () => {
  rootPath = await mkdtemp(join(tmpdir(), "ramet-image-user-"));
  await mkdir(join(rootPath, "etc"));
  await writeFile(join(rootPath, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\napp:x:1000:50:App:/home/app:/bin/sh\n");
  await writeFile(join(rootPath, "etc/group"), "root:x:0:\nstaff:x:50:\nmail:x:8:app\n");
});
afterEach(() => rm(rootPath, { recursive: true, force: true }));

const of = (user: string) => imageUser({ name: "python", rootPath, user });

it.each([
  ["", undefined],
  ["root", { uid: 0, gid: 0 }],
  ["app", { uid: 1000, gid: 50 }],
  ["1000", { uid: 1000, gid: 50 }],
  ["1234", { uid: 1234, gid: 0 }],
  ["app:mail", { uid: 1000, gid: 8 }],
  ["1234:99", { uid: 1234, gid: 99 }],
  ["app:", { uid: 1000, gid: 50 }],
])("resolves the user %j", async (user, ids) => {
  expect(await of(user)).toEqual(ids);
});

it("names an unknown user or group", async () => {
  await expect(of("nobody")).rejects.toThrow(
    /Starting the image python as nobody failed.*\/etc\/passwd has no user nobody/,
  );
  await expect(of("app:wheel")).rejects.toThrow(/\/etc\/group has no group wheel/);
});

it("does not follow a link out of the image", async () => {
  await rm(join(rootPath, "etc"), { recursive: true });
  await symlink("/etc", join(rootPath, "etc"));
  await expect(of("daemon")).rejects.toThrow(/no user daemon/);
  await rm(join(rootPath, "etc"));
  await mkdir(join(rootPath, "etc"));
  await symlink("/etc/passwd", join(rootPath, "etc/passwd"));
  await expect(of("daemon")).rejects.toThrow(/no user daemon/);
});

it("does not wait for a FIFO, and does not read a huge file", async () => {
  await rm(join(rootPath, "etc/passwd"));
  execFileSync("mkfifo", [join(rootPath, "etc/passwd")]);
  await expect(of("app")).rejects.toThrow(/no user app/);
  await rm(join(rootPath, "etc/passwd"));
  await writeFile(join(rootPath, "etc/passwd"), "app:x:1000:50:App:/home/app:/bin/sh\n");
  await truncate(join(rootPath, "etc/passwd"), 2 ** 40);
  await expect(of("app")).rejects.toThrow(/no user app/);
});
