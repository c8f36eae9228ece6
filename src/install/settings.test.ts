import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { besideKeys } from "./beside-manifests.ts";
import { parseSetting } from "./install-options.ts";
import { keysOf, mapSettings, serverArguments } from "./setting-values.ts";
import { commands, type SettingKey, settings } from "./settings.ts";

const names = ["controller", "gateway", "client-api", "manifests"] as const;

it("knows each setting that a command takes, and each is taken once by a command", () => {
  const keys = Object.keys(settings) as SettingKey[];
  for (const name of names) {
    const taken = commands[name].flatMap((line) => line.split(" "));
    expect(keys).toEqual(expect.arrayContaining(taken));
    expect(new Set(taken).size).toBe(taken.length);
  }
  expect(keys.filter((key) => !names.some((name) => (keysOf(name) as string[]).includes(key)))).toEqual([]);
});

it("passes to a server's container the settings that it takes, in the order of the table", () => {
  const values = {
    cellImage: "cell:1",
    servedNamespaces: ["a", "b"],
    registries: { lookup: false, pullTimeout: "90s" },
    gateway: { exec: false, maxConnections: 5, acceptTokensByReviewOnly: true, url: "https://gateway.example" },
    importVolumes: false,
    leaderElect: true,
  };
  expect(serverArguments("controller", values)).toEqual(
    "--leader-elect --cell-image cell:1 --no-image-lookup --pull-timeout 90s --served-namespace a --served-namespace b".split(
      " ",
    ),
  );
  expect(serverArguments("gateway", values)).toEqual(
    "--served-namespace a --served-namespace b --max-connections 5 --accept-tokens-by-review-only --no-exec".split(" "),
  );
});

it("converts the values that exist, also of lists, and validates them by their schema", () => {
  const keys = ["replicas", "registries.private", "registries.lookup", "egress.default"] as const;
  const values = { replicas: 2, registries: { private: ["a.b", "c.d"], lookup: false }, other: 1 };
  expect(mapSettings(keys, values, (key, value) => `${key} ${String(value)}`)).toEqual({
    replicas: "replicas 2",
    registries: { private: ["registries.private a.b", "registries.private c.d"], lookup: false },
  });
  expect(() => parseSetting("replicas", 0, "--replicas")).toThrow("--replicas must be at least 1");
});

// A new setting needs a row in the table and its use. A program's argument has a doc comment, which is its reference page.
it.each([
  ["pullTimeout", ["components/runtime-settings.ts", "src/cli/server/controller.ts", "src/install/settings.ts"]],
  ["trustedProxies", ["components/runtime-settings.ts", "src/cli/server/gateway.ts"]],
  ["concurrentUpgrades", ["src/cli/server/controller.ts", "src/install/settings.ts"]],
])("keeps the setting %s in few files before it reaches its server", (name, expected) => {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const files = globSync(["src/{cli,install}/**/*.ts", "components/**/*.ts", "provider/**/*.ts"], { cwd: root });
  const having = files
    .filter((file) => !file.endsWith(".test.ts"))
    .filter((file) => new RegExp(`\\b${name}\\b`).test(readFileSync(`${root}/${file}`, "utf8")));
  const tables = ["src/install/http-server-settings.ts", "src/install/settings.ts"];
  expect(having.filter((file) => !tables.includes(file)).sort()).toEqual(
    expected.filter((file) => !tables.includes(file)),
  );
});

it("never takes a kubeconfig for an installation beside other controllers, which runs in the cluster", () => {
  expect(besideKeys()).toContain("beside");
  expect(besideKeys().filter((key) => /kubeconfig|context|token|secret/i.test(key))).toEqual([]);
});
