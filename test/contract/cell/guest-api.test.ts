import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ContainerSpec, guestClientPort } from "../../../src/api/wire/cell-api.ts";
import { containerUser, GuestClient } from "../../../src/cell/client/guest-client.ts";
import { callGuest } from "../../../src/cell/client/guest-http.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { Cells } from "../../setup/cells.ts";

const mebibyte = 1024 ** 2;
const container = { command: ["sleep", "infinity"] };

/** The guest as E2B's SDKs see it, which depends on gVisor. */
describe("the guest in a real sandbox", () => {
  let cells: Cells;

  beforeAll(async () => {
    cells = await Cells.open();
  });
  afterAll(() => cells.close());

  const boot = (name: string, resources: ContainerSpec["resources"]): Promise<RunningCell> =>
    cells.boot({ name, container: { ...container, resources } });

  async function call(cell: RunningCell, path: string, message?: object): Promise<unknown> {
    const response = await callGuest(() => cells.client.dial(cell.address, guestClientPort), {
      method: message === undefined ? "GET" : "POST",
      path,
      headers: { "x-access-token": cell.identity.accessToken, "content-type": "application/json" },
      ...(message !== undefined && { body: Buffer.from(JSON.stringify(message)) }),
    });
    const text = (await buffer(response)).toString();
    expect(response.statusCode, text).toBe(200);
    return JSON.parse(text);
  }

  const metricsOf = (cell: RunningCell) => call(cell, "/metrics") as Promise<Record<string, number>>;

  it("shows the sandbox's limits and use in its metrics, and those of a clone", async () => {
    const limits = { memoryBytes: 512 * mebibyte, cpuMillis: 1_500, storageBytes: 3 * 1024 * mebibyte };
    const cell = await boot("limited", limits);
    const idle = await metricsOf(cell);
    expect(idle).toMatchObject({ cpu_count: 2, mem_total: limits.memoryBytes, disk_total: limits.storageBytes });
    expect(idle["mem_used"]).toBeLessThan(100 * mebibyte);
    expect(idle["disk_used"]).toBeLessThan(100 * mebibyte);

    const hold = "a = b'x' * (200 << 20); print('held', flush=True)\nwhile True: pass";
    const holding = cells.guestOf(cell).startProcess({ command: "python3", args: ["-c", hold] });
    for await (const event of holding) if (event.type === "data") break;
    await expect.poll(async () => (await metricsOf(cell))["cpu_used_pct"], { timeout: 30_000 }).toBeGreaterThan(10);
    const used = (await metricsOf(cell))["mem_used"];
    expect(used).toBeGreaterThan(200 * mebibyte);
    expect(used).toBeLessThan(limits.memoryBytes);

    const { manifestDigest } = await cells.checkpoint(cell, "limited-1");
    const resources = { memoryBytes: 768 * mebibyte, cpuMillis: 500 };
    const larger = { name: "larger", container: { ...container, resources } };
    const clone = await cells.clone(larger, { checkpointId: "limited-1", manifestDigest });
    expect(await metricsOf(clone)).toMatchObject({ cpu_count: 1, mem_total: resources.memoryBytes });
  });

  it("runs commands of SDKs as the user of E2B's images, and Ramet's own as the container's", async () => {
    const cell = await boot("users", {});
    const { accessToken } = cell.identity;
    const dial = () => cells.client.dial(cell.address, guestClientPort);
    const who = async (user?: string): Promise<string> => {
      const client = new GuestClient({ dial, accessToken, ...(user !== undefined && { user }) });
      let text = "";
      for await (const event of client.startProcess({ command: "sh", args: ["-c", "id -un; pwd"] })) {
        if (event.type === "data") text += event.data.toString();
      }
      return text;
    };
    await cells.output(cell, "userdel --remove user");
    expect(await who()).toBe("root\n/root\n");
    await cells.output(cell, "useradd --create-home user");
    expect(await who()).toBe("user\n/home/user\n");
    expect(await who("root")).toBe("root\n/root\n");
    expect(await who(containerUser)).toBe("root\n/root\n");
    // Its files are the user's, and relative paths begin in its home.
    const client = new GuestClient({ dial, accessToken });
    await client.writeFile("new/file", Buffer.from("x"));
    expect(await client.stat("new/file")).toMatchObject({ path: "/home/user/new/file", owner: "user", group: "user" });
  });

  it("keeps the metadata of files in a checkpoint, and composes files", async () => {
    const cell = await boot("files", {});
    const upload = await callGuest(() => cells.client.dial(cell.address, guestClientPort), {
      method: "POST",
      path: "/files?path=/one",
      headers: {
        "x-access-token": cell.identity.accessToken,
        "content-type": "application/octet-stream",
        "x-metadata-author": "ada",
      },
      body: Buffer.from("first "),
    });
    expect(JSON.parse((await buffer(upload)).toString())).toMatchObject([{ metadata: { author: "ada" } }]);
    await cells.guestOf(cell).writeFile("/two", Buffer.from("second"));
    for (const contents of [["memory", "filesystem"], ["filesystem"]] as const) {
      const checkpointId = `files-${contents.length}`;
      const { manifestDigest } = await cells.checkpoint(cell, checkpointId, { contents: [...contents] });
      const options = { name: checkpointId, container };
      const clone = await cells.clone(options, { checkpointId, manifestDigest, contents: [...contents] });
      const entry = { entry: { metadata: { author: "ada" } } };
      expect(await call(clone, "/filesystem.Filesystem/Stat", { path: "/one" })).toMatchObject(entry);
      await call(clone, "/files/compose", { source_paths: ["/one", "/two"], destination: "/home/whole" });
      expect(await cells.output(clone, "cat /home/whole; ls /one /two 2>&1 | wc -l")).toBe("first second2");
    }
  });
});
