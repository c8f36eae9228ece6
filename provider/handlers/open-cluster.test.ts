import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { stringify } from "yaml";
import { connectionOf, defaultNamespace } from "./open-cluster.ts";

/** As Pulumi's Kubernetes provider reads its configuration (provider/pkg/provider of pulumi-kubernetes). */
let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-kubeconfig-"));
  await writeFile(join(directory, "clusters"), stringify({ clusters: [cluster("a"), cluster("b")] }));
  await writeFile(
    join(directory, "contexts"),
    stringify({ contexts: [context("one", "a", "team-a"), context("two", "b")] }),
  );
  await writeFile(join(directory, "current"), stringify({ "current-context": "one" }));
});

afterAll(() => rm(directory, { recursive: true }));

it("merges the files of KUBECONFIG, ignores missing ones, and uses the configured context", async () => {
  expect(await servers({})).toEqual(["https://a.example", "team-a"]);
  expect(await servers({ "kubernetes:context": "two" })).toEqual(["https://b.example", "default"]);
});

it("prefers kubernetes:cluster and kubernetes:namespace to those of the context", async () => {
  expect(await servers({ "kubernetes:cluster": "b" })).toEqual(["https://b.example", "team-a"]);
  expect(await servers({ "kubernetes:namespace": "team-b", "kubernetes:cluster": "" })).toEqual([
    "https://a.example",
    "team-b",
  ]);
});

it("accepts the kubeconfig as text, and ignores environment variables for the context", async () => {
  const config = { clusters: [cluster("c")], contexts: [context("three", "c", "team-c")], "current-context": "three" };
  const configuration = { "kubernetes:kubeconfig": JSON.stringify(config) };
  expect(await servers(configuration, { PULUMI_K8S_CONTEXT: "two" })).toEqual(["https://c.example", "team-c"]);
});

/** The server and the default namespace. */
async function servers(configuration: Record<string, string>, environment = {}): Promise<string[]> {
  const files = ["missing", "clusters", "contexts", "current"].map((name) => join(directory, name));
  const env = {
    configuration: { get: (key: string) => configuration[key] },
    environment: { KUBECONFIG: files.join(delimiter), ...environment },
  };
  return [(await connectionOf(env)).server, await defaultNamespace(env)];
}

function cluster(name: string): object {
  return { name, cluster: { server: `https://${name}.example` } };
}

function context(name: string, clusterName: string, namespace?: string): object {
  return { name, context: { cluster: clusterName, ...(namespace !== undefined && { namespace }) } };
}
