import { execFile, spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";

/** `copy: {url}` with the resolver of an attacker, in a network namespace of the test: every address there has a server. */
const isAble =
  spawnSync("unshare", ["--user", "--map-root-user", "--net", "--mount", "ip", "link", "set", "lo", "up"]).status === 0;
const inNamespace = it.skipIf(!isAble);

const publicAddress = "203.0.113.5";
const hidden = {
  metadata: ["169.254.169.254"],
  loopback: ["127.0.0.1"],
  private: ["10.1.2.3"],
  own: ["198.19.0.7"],
  zero: ["0.0.0.0"],
  mapped: ["::ffff:169.254.169.254"],
  compatible: ["::10.1.2.3"],
  translated: ["::ffff:0:10.1.2.3"],
  nat64: ["64:ff9b::a9fe:a9fe"],
  "local-nat64": ["64:ff9b:1::a9fe:a9fe"],
  sixtofour: ["2002:a9fe:a9fe::1"],
  unique: ["fd00:ec2::254"],
  link: ["fe80::1"],
  site: ["fec0::1"],
  loopback6: ["::1"],
  alias: ["=a.cdn.test", "=metadata.google.internal", "169.254.169.254"],
  several: ["10.1.2.3", "169.254.169.254", "fd00:ec2::254"],
};
const answers: Record<string, string[]> = {
  ...hidden,
  public: [publicAddress],
  mixed: ["10.1.2.3", publicAddress, "169.254.169.254", "64:ff9b::a9fe:a9fe"],
};

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-rebinding-"));
  await writeFile(join(directory, "resolv.conf"), "nameserver 127.0.0.1\n");
  await writeFile(join(directory, "nsswitch.conf"), "hosts: dns\n");
});
afterAll(() => rm(directory, { recursive: true }));

interface Seen {
  ends: string[];
  reached: string[];
  /** How often each name was looked up. */
  asked: Record<string, number>;
}

async function fetchAll(...urls: string[]): Promise<Seen> {
  const routes = ["203.0.113.0/24", "10.0.0.0/8", "169.254.0.0/16", "198.19.0.0/16"];
  const routes6 = ["64:ff9b::/32", "2002::/16", "fc00::/7", "fec0::/10", "::ffff:0:0:0/96"];
  const script = [
    "ip link set lo up",
    ...routes.map((route) => `ip route add local ${route} dev lo`),
    // A machine may have no IPv6.
    ...routes6.map((route) => `{ ip -6 route add local ${route} dev lo || true; }`),
    ...["resolv.conf", "nsswitch.conf"].map((name) => `mount --bind ${join(directory, name)} /etc/${name}`),
    'exec "$@"',
  ].join(" && ");
  const inside = ["--user", "--map-root-user", "--net", "--mount", "sh", "-c", script, "sh"];
  const program = join(import.meta.dirname, "rebinding-program.ts");
  const run = [...inside, process.execPath, program, JSON.stringify(answers), ...urls];
  const { stdout } = await promisify(execFile)("unshare", run);
  return JSON.parse(stdout) as Seen;
}

const kinds = Object.keys(hidden);

inNamespace("fetches nothing from a name that leads to an address inside, at first or later", async () => {
  const first = kinds.map((kind) => `http://${kind}.test/`);
  const later = kinds.map((kind) => `http://public.${kind}.test/`);
  const { ends, reached, asked } = await fetchAll(...first, ...later, ...later);
  const forbidden = kinds.map(() => "Forbidden");
  expect(ends).toEqual([...forbidden, ...kinds.map(() => "content"), ...forbidden]);
  expect(reached).toEqual([publicAddress]);
  // The answer that was checked is the one that is used.
  expect(asked).toEqual(
    Object.fromEntries(
      kinds.flatMap((kind) => [
        [`${kind}.test`, 1],
        [`public.${kind}.test`, 2],
      ]),
    ),
  );
});

inNamespace("follows no redirect inside, and of several addresses uses the public ones", async () => {
  const forms = [
    "//metadata.test/",
    "http://public.test@metadata.test/",
    "http://public.public.test:80@metadata.test/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://0x7f.1/",
    "http://2130706433/",
    "http://127.1/",
    "http://0/",
    "file:///etc/passwd",
    "ftp://public.test/",
    "data:,content",
  ];
  const inside = [...kinds.map((kind) => `http://${kind}.test/`), ...forms];
  const redirected = inside.map((to) => `http://public.test/?to=${encodeURIComponent(to)}`);
  const { ends, reached } = await fetchAll(...redirected, "http://mixed.test/", "http://public.test/?to=//mixed.test/");
  expect(ends).toEqual([...inside.map(() => "Forbidden"), "content", "content"]);
  expect(reached).toEqual([publicAddress]);
});
