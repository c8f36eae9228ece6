import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { afterAll, beforeAll, expect, it } from "vitest";
import { identityClientId } from "../engine/cloud-resources.ts";
import type { RunResult } from "../engine/engine.ts";
import { openProgram, type ProgramWorld } from "./program-world.ts";

/** Access of the controllers to an existing bucket. Stand-ins replace the clouds, and no cluster is needed. */
let world: ProgramWorld;
let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-store-identity-"));
  const kubeconfig = join(directory, "kubeconfig");
  await writeFile(kubeconfig, stringify(nowhere));
  world = await openProgram("test/program/programs/store-identity", { kubeconfig });
});

afterAll(async () => {
  await world.remove();
  await rm(directory, { recursive: true });
});

it("rejects a prefix that could allow more, and IRSA without its provider", async () => {
  expect((await up({ "program:prefix": "*" })).text).toMatch(/prefix must be names separated by slashes/);
  expect((await up({ "program:identity": "irsa" })).text).toMatch(/oidcProviderArn is missing/);
  expect((await up({ "program:account": "a/b" })).text).toMatch(/accountId is not the id of a storage account/);
});

it("declares an identity with access to the bucket in each cloud, and outputs the store", async () => {
  const { succeeded, text, outputs } = await up({});
  expect(text).not.toMatch(/error/);
  const account = "stand-in@project.iam.gserviceaccount.com";
  expect({ succeeded, ...outputs }).toEqual({
    succeeded: true,
    s3: { bucket: "agents-checkpoints", region: "eu-central-1", prefix: "ramet/prod" },
    gcs: { bucket: "agents-checkpoints", serviceAccount: account },
    azure: { account: "agents", container: "checkpoints", clientId: identityClientId },
  });
  const { resources } = JSON.parse(await world.state()) as { resources: { type: string; inputs?: object }[] };
  const inputsOf = (type: string) => resources.filter((each) => each.type === type).map(({ inputs }) => inputs);
  const [role] = inputsOf("aws:iam/rolePolicy:RolePolicy");
  expect(JSON.parse((role as { policy: string }).policy)).toMatchObject({
    Statement: [
      { Resource: "arn:aws:s3:::agents-checkpoints/ramet/prod/*" },
      { Action: "s3:ListBucket", Resource: "arn:aws:s3:::agents-checkpoints" },
      { Action: ["kms:GenerateDataKey", "kms:Decrypt"], Resource: "arn:aws:kms:key" },
    ],
  });
  const controllers = { namespace: "ramet-system", serviceAccount: "ramet-controller" };
  expect(inputsOf("aws:eks/podIdentityAssociation:PodIdentityAssociation")).toMatchObject([controllers]);
  expect(inputsOf("aws:iam/role:Role")).toMatchObject([{ description: "of the platform" }]);
  expect(inputsOf("gcp:storage/bucketIAMMember:BucketIAMMember")).toMatchObject([
    { bucket: "agents-checkpoints", role: "roles/storage.objectUser", member: `serviceAccount:${account}` },
  ]);
  expect(inputsOf("azure-native:authorization:RoleAssignment")).toMatchObject([
    { scope: expect.stringMatching(/storageAccounts\/agents$/) as string, principalType: "ServicePrincipal" },
  ]);
});

/** Nothing listens on this port. */
const nowhere = {
  apiVersion: "v1",
  kind: "Config",
  "current-context": "one",
  contexts: [{ name: "one", context: { cluster: "one", user: "one" } }],
  clusters: [{ name: "one", cluster: { server: "https://127.0.0.1:9" } }],
  users: [{ name: "one", user: {} }],
};

function up(configuration: Record<string, string>): Promise<RunResult> {
  return world.engine.with({ configuration }).up();
}
