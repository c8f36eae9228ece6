import { afterAll, beforeAll, expect, it } from "vitest";
import { group as ownGroup, rametGroup, version } from "../../src/api/schema/kind.ts";
import { runProgram } from "../../src/cli/program.ts";
import { type UserKindName, userKindNames, userKinds } from "../../src/cli/object/user-kind.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { type Cluster, openCluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";

/** The lists of all kinds, from a real API server, which puts the namespace `team-b` before `team`. No controller runs. */
let cluster: Cluster;
const namespaces = ["team-b", "team"];
const names = ["b", "a-2", "a", "a-10"];
const sorted = ["a", "a-10", "a-2", "b"];

beforeAll(async () => {
  cluster = await openCluster({ startNode: new StandInNode().start });
  await cluster.stopControllers();
  for (const namespace of namespaces) await cluster.namespace(namespace);
  const places = namespaces.flatMap((namespace) => names.map((name) => ({ namespace, name })));
  for (const metadata of places) await Promise.all(userKindNames.map((kind) => create(kind, metadata)));
});
afterAll(() => cluster.close());

const template = { spec: { containers: [{ name: "main", image: "python" }] } };
const specs: Readonly<Record<UserKindName, object>> = {
  sandbox: { template },
  checkpoint: { sandboxName: "a" },
  template: { template },
  set: { replicas: 1, template },
  claim: { templateName: "a" },
  snapshot: { from: { template: { name: "a" } }, recipe: [{ run: "true" }] },
  key: { serviceAccountName: "agents", digests: [{ digest: `sha256:${"0".repeat(64)}` }] },
};

async function create(noun: UserKindName, metadata: { namespace: string; name: string }): Promise<void> {
  const { kind } = userKinds[noun];
  const group = kind.group === rametGroup ? rametGroup : ownGroup;
  const manifest = { apiVersion: `${group}/${version}`, kind: kind.kind, metadata, spec: specs[noun] };
  await cluster.client.resource(refOf(kind)).create(manifest);
}

async function ramet(...args: string[]): Promise<string> {
  const io = memoryIo({ environment: { HOME: "/nowhere", KUBECONFIG: cluster.kubeconfigPath } });
  expect(await runProgram(io, args), io.written("stderr")).toBe(0);
  return io.written("stdout");
}

it.each(userKindNames)(
  "sorts the list of each %s by name, and those of all namespaces by namespace first",
  async (kind) => {
    const namesIn = (text: string): string[] => text.trim().split("\n");
    expect(namesIn(await ramet("get", kind, "-n", "team", "-o", "name"))).toEqual(sorted);
    const all = JSON.parse(await ramet("get", kind, "-A", "-o", "json")) as {
      items: { metadata: { namespace: string; name: string } }[];
    };
    const found = all.items.map(({ metadata: { namespace, name } }) => `${namespace}/${name}`);
    expect(found).toEqual(["team", "team-b"].flatMap((namespace) => sorted.map((name) => `${namespace}/${name}`)));
  },
);

it.each(userKindNames.filter((kind) => kind !== "template"))("sorts the table of ramet %s ls too", async (kind) => {
  const [, ...rows] = (await ramet(kind, "ls", "-A")).trim().split("\n");
  const found = rows.map((row) => row.split(/ +/).slice(0, 2).join("/"));
  expect(found).toEqual(["team", "team-b"].flatMap((namespace) => sorted.map((name) => `${namespace}/${name}`)));
});
