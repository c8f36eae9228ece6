import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { memoryIo } from "../../../test/setup/memory-io.ts";
import { printLine } from "../io.ts";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { Storage } from "../../api/state/storage.ts";
import { checkpointColumns, sandboxColumns } from "../object/columns.ts";
import { renderList, renderObject, age, size, table } from "./render.ts";
import { visible } from "../../base/visible.ts";

const now = new Date("2030-01-01T00:05:00Z");
const metadata = {
  name: "a",
  namespace: "default",
  uid: "u",
  resourceVersion: "1",
  creationTimestamp: "2030-01-01T00:00:00Z",
  managedFields: [{ manager: "kubectl" }],
};
const base = { apiVersion: "agents.kruise.io/v1alpha1", metadata };
const cellPart = { backend: "cell", cutAt: "2030-01-01T00:00:00Z", consistency: "atomic" };
const running = {
  ...base,
  kind: "Sandbox",
  spec: { templateRef: { name: "python" } },
  status: {
    phase: "Running",
    conditions: [],
    ramet: { writableLayer: { medium: "memory", sizeBytes: 3 * 1024 ** 3 } },
  },
};

describe("output", () => {
  it("shows control characters of programs instead of sending them to the terminal", () => {
    const hostile = "bad\u001b]0;title\u0007\u001b[2K\rgood\u009b31m\u202edne";
    const shown = "bad^[]0;title^G^[[2K^Mgood\\u009b31m\\u202edne";
    expect(visible(hostile)).toBe(shown);
    expect(visible("a\tb\nc")).toBe("a\tb\nc");
    const status = { phase: "Failed", message: hostile };
    const rendering = { columns: sandboxColumns, now } as const;
    const text = renderObject({ ...running, status } as never, { ...rendering, output: "table" });
    expect(text).not.toMatch(/[^\P{Cc}\n]/u);
    // A carriage return is white space, of which cells keep one space.
    expect(text).toContain("^[[2K good\\u009b31m");
    const io = memoryIo();
    printLine(io.stdout, JSON.stringify({ hostile }));
    expect(JSON.parse(io.written("stdout"))).toEqual({ hostile });
  });

  it.each([
    ["2030-01-01T00:04:59Z", "1s"],
    ["2030-01-01T00:03:01Z", "119s"],
    ["2030-01-01T00:00:00Z", "5m"],
    ["2029-12-31T12:05:00Z", "12h"],
    ["2029-12-01T00:05:00Z", "31d"],
    ["2030-01-01T00:06:00Z", "0s"],
    [undefined, "<unknown>"],
  ])("shows %s as %s ago", (since, shown) => {
    expect(age(since, now)).toBe(shown);
  });

  it.each([
    [undefined, ""],
    [0, "0B"],
    [1023, "1023B"],
    [4 << 20, "4MiB"],
    [1.5 * 2 ** 30, "1.5GiB"],
    [250.4 * 2 ** 20, "250MiB"],
  ])("shows %s bytes as %s", (bytes, shown) => {
    expect(size(bytes)).toBe(shown);
  });

  it("aligns columns and keeps each row on one line", () => {
    expect(
      table(
        ["NAME", "MESSAGE"],
        [
          ["long-name", "a\nb"],
          ["x", ""],
        ],
      ),
    ).toBe("NAME        MESSAGE\nlong-name   a b\nx\n");
  });

  it("shows a sandbox in a table with kubectl's layout", () => {
    expect(renderList([running], { output: "table", columns: sandboxColumns, now, withNamespace: true })).toBe(
      "NAMESPACE   NAME   STATUS    AGE   DISK            FROM     MESSAGE\ndefault     a      Running   5m    3GiB (memory)   python\n",
    );
  });

  it("shows a sandbox in deletion as Terminating and an invalid one as unreadable", () => {
    const going = { ...running, metadata: { ...metadata, name: "b", deletionTimestamp: "2030-01-01T00:04:00Z" } };
    const odd = { ...running, metadata: { ...metadata, name: "c" }, spec: 5 };
    const text = renderList([going, odd], { output: "table", columns: sandboxColumns, now });
    expect(text).toContain("b      Terminating");
    expect(text).toContain("c      <unreadable>");
  });

  it("shows the contents of a checkpoint", () => {
    const checkpoint = {
      ...base,
      kind: "Checkpoint",
      metadata: { ...metadata, annotations: { "agents.kruise.io/owner": "team/k" } },
      spec: { sandboxName: "a" },
      status: {
        phase: "Succeeded",
        checkpointId: "a-1",
        ramet: { sizeBytes: 4 << 20, contents: ["memory", "filesystem"] },
      },
    };
    expect(renderObject(checkpoint, { output: "table", columns: checkpointColumns(), now })).toBe(
      "NAME   STATUS      ID    SOURCE   CONTENTS            SIZE   OWNER    AGE   MESSAGE\n" +
        "a      Succeeded   a-1   a        memory,filesystem   4MiB   team/k   5m\n",
    );
  });

  it("shows what a checkpoint needs of the store alone, and with others", () => {
    const manifestDigest = `sha256:${"0".repeat(64)}`;
    const layers = [{ checkpointId: "files", manifestDigest, sizeBytes: 3 << 20 }];
    const of = (name: string, sizeBytes: number) => ({
      ...base,
      kind: "Checkpoint",
      metadata: { ...metadata, name, uid: name },
      spec: { sandboxName: "a" },
      status: {
        phase: "Succeeded",
        checkpointId: name,
        ramet: {
          sizeBytes,
          parts: [{ ...cellPart, handle: name, contents: ["filesystem"], sizeBytes, layers }],
        },
      },
    });
    const all = [of("one", 1 << 20), of("two", 1024)];
    const columns = checkpointColumns(new Storage(all.map((one) => Checkpoint.parse(one))));
    const rows = renderList(all, { output: "table", columns, now }).split("\n");
    expect(rows[0]).toMatch(/ SIZE +UNIQUE +SHARED +OWNER /);
    expect(rows[1]).toMatch(/^one .* 1MiB +1MiB +3MiB /);
    expect(rows[2]).toMatch(/^two .* 1KiB +1KiB +3MiB /);
  });

  it("marks a checkpoint that is a layer, and one on layers", () => {
    const manifestDigest = `sha256:${"0".repeat(64)}`;
    const shown = (handle: string) => {
      const part = {
        ...cellPart,
        handle,
        contents: ["filesystem"],
        sizeBytes: 1,
        layers: [{ checkpointId: "a-1", manifestDigest, sizeBytes: 1 }],
      };
      const ramet = { contents: ["filesystem"], parts: [part] };
      const checkpoint = { ...base, kind: "Checkpoint", metadata, spec: { sandboxName: "a" }, status: { ramet } };
      return renderObject(checkpoint, { output: "table", columns: checkpointColumns(), now });
    };
    expect(shown(manifestDigest)).toContain("filesystem (layer)");
    expect(shown(`sha256:${"1".repeat(64)}`)).toContain("filesystem (on layers)");
  });

  it("prints a Kubernetes List in JSON, an object in YAML, and names, all without managed fields", () => {
    const options = { columns: sandboxColumns, now };
    const list: unknown = JSON.parse(renderList([running], { ...options, output: "json" }));
    expect(list).toMatchObject({ apiVersion: "v1", kind: "List", items: [{ kind: "Sandbox", spec: running.spec }] });
    expect(JSON.stringify(list)).not.toContain("managedFields");
    expect(parse(renderObject(running, { ...options, output: "yaml" }))).toMatchObject({
      status: { phase: "Running" },
    });
    expect(renderList([running], { ...options, output: "name" })).toBe("a\n");
  });
});
