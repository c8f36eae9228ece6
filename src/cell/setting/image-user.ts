import { constants } from "node:fs";
import { open, lstat, readlink } from "node:fs/promises";
import { join, sep } from "node:path";
import { RametError } from "../../base/errors.ts";
import { goArchitecture } from "../../base/machine.ts";
import type { CellSetting } from "./cell-setting.ts";

export interface UserIds {
  uid: number;
  gid: number;
}

/**
 * Resolves an image's user (`User` of the OCI image configuration) to ids: `user`, `uid`, `user:group`, `uid:gid` and
 * mixtures of them. Names are looked up in the image's `/etc/passwd` and `/etc/group`. Without a group, the user's group is
 * used, or 0 for a uid that is not in `/etc/passwd`. Undefined for an image without a user.
 * @throws RametError `InvalidArgument` for an unknown name
 */
export async function imageUser(image: { name: string; rootPath: string; user: string }): Promise<UserIds | undefined> {
  if (image.user === "") return undefined;
  const [user = "", group = ""] = image.user.split(":");
  const ids = await userIds(image, user);
  return group === "" ? ids : { ...ids, gid: await groupId(image, group) };
}

type NamedImage = Parameters<typeof imageUser>[0];

async function userIds(image: NamedImage, user: string): Promise<UserIds> {
  const column = number(user) === undefined ? 0 : 2;
  const found = (await entries(image.rootPath, "passwd")).find((fields) => fields[column] === user);
  const uid = number(user) ?? number(found?.[2]);
  if (uid === undefined) throw unknown(image, "user", user, "/etc/passwd");
  return { uid, gid: number(found?.[3]) ?? 0 };
}

async function groupId(image: NamedImage, group: string): Promise<number> {
  const found = (await entries(image.rootPath, "group")).find(([name]) => name === group);
  const gid = number(group) ?? number(found?.[2]);
  if (gid === undefined) throw unknown(image, "group", group, "/etc/group");
  return gid;
}

/** The fields of each line of a file of users or groups (passwd(5), group(5)); empty if the file is missing. */
async function entries(rootPath: string, name: "passwd" | "group"): Promise<string[][]> {
  // The image is untrusted: a link in it must not lead to a file of this machine.
  const etc = await directoryInside(rootPath, join(rootPath, "etc"));
  if (etc === undefined) return [];
  // Nor may a FIFO block the reader, or a huge file fill its memory.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(join(etc, name), flags).catch(() => undefined);
  try {
    const found = await file?.stat();
    if (file === undefined || found?.isFile() !== true || found.size > mostBytes) return [];
    return (await file.readFile("utf8")).split("\n").map((line) => line.split(":"));
  } finally {
    await file?.close();
  }
}

/** A line has about 60 bytes. */
const mostBytes = 4 * 1024 * 1024;

function number(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}

function unknown(image: NamedImage, what: string, name: string, file: string): RametError {
  return new RametError(
    "InvalidArgument",
    `Starting the image ${image.name} as ${image.user} failed: its ${file} has no ${what} ${name}`,
    { hint: "Set securityContext.runAsUser in the template" },
  );
}

/**
 * Completes a setting with what only the image's files tell: the ids of a user that the image names. Checks that the image is for
 * this machine, because a node may have pulled another one than the controllers looked up.
 */
export async function withImageUser(setting: CellSetting): Promise<CellSetting> {
  const { config, container, image } = setting;
  const { userName, architecture } = image;
  if (architecture !== undefined && architecture !== goArchitecture) {
    return { ...setting, problem: otherArchitecture(container.image, architecture) };
  }
  if (userName === undefined || container.userOfImage !== true) return setting;
  try {
    const user = await imageUser({ name: container.image, rootPath: config.rootPath, user: userName });
    return user === undefined ? setting : { ...setting, container: { ...container, user } };
  } catch (error) {
    return { ...setting, problem: RametError.from(error) };
  }
}

function otherArchitecture(image: string, architecture: string): RametError {
  const why = `The image ${image} is for ${architecture}, but this node is ${goArchitecture}`;
  return new RametError("NeedNotMet", why, {
    hint: `Add to the template the nodeSelector kubernetes.io/arch: ${architecture}, or use an image for ${goArchitecture}`,
  });
}

/**
 * Resolves a path as a process with the root directory `root` would: absolute links start at `root`, and `..` does not leave
 * it. Returns the directory without links, or undefined if the path does not lead to a directory.
 */
export async function directoryInside(root: string, path: string): Promise<string | undefined> {
  const remaining = path.slice(root.length).split(sep);
  const at: string[] = [];
  // Linux follows at most 40 links (path_resolution(7)).
  for (let links = 0; remaining.length > 0;) {
    const name = remaining.shift();
    if (name === undefined || name === "" || name === ".") continue;
    if (name === "..") {
      at.pop();
      continue;
    }
    const found = await lstat(join(root, ...at, name)).catch(() => undefined);
    if (found?.isSymbolicLink() === true) {
      links += 1;
      if (links > 40) return undefined;
      const target = await readlink(join(root, ...at, name));
      if (target.startsWith(sep)) at.length = 0;
      remaining.unshift(...target.split(sep));
    } else if (found?.isDirectory() === true) at.push(name);
    else return undefined;
  }
  return join(root, ...at);
}
