import { describe, expect, it } from "vitest";
import type { PolicyResource, Rule } from "../rule.ts";
import { rules } from "../guardrails.ts";
import { boundedLifetimes, boundedReplicas, retention } from "./bounded-lifetimes.ts";
import { pinnedImages } from "./pinned-images.ts";
import { privateStore } from "./private-store.ts";
import { recipeSecrets } from "./recipe-secrets.ts";

const now = new Date("2030-01-01T00:00:00Z");
const digest = `sha256:${"ab".repeat(32)}`;

function validate(rule: Rule, resource: PolicyResource, settings: object = {}): string[] {
  return rule.validate(resource, settings, now);
}

function snapshot(inputs: object): PolicyResource {
  return { type: "pulumi-nodejs:dynamic/ramet:NamedSnapshot", name: "data", inputs: { ...inputs } };
}

function object(kind: string, spec: object, apiVersion = "agents.kruise.io/v1alpha1"): PolicyResource {
  const inputs = { apiVersion, kind, metadata: { name: kind.toLowerCase() }, spec };
  return { type: `kubernetes:${apiVersion}:${kind}`, name: kind.toLowerCase(), inputs };
}

describe.each(rules.map((rule) => [rule.name, rule] as const))("%s", (_, rule) => {
  it("ignores resources that it does not cover", () => {
    expect(validate(rule, { type: "random:index/randomId:RandomId", name: "id", inputs: { byteLength: 8 } })).toEqual(
      [],
    );
    expect(validate(rule, object("ConfigMap", {}, "v1"))).toEqual([]);
    expect(validate(rule, { type: "aws:ec2/vpc:Vpc", name: "v", inputs: { metadata: 7, acl: "public-read" } })).toEqual(
      [],
    );
  });

  it("rejects unknown settings", () => {
    expect(() => validate(rule, snapshot({}), { mostReplica: 1 })).toThrow(`Invalid settings of ${rule.name}`);
  });
});

it("skips exempt resources", () => {
  expect(validate(retention, snapshot({ keepVersions: 1 }))).toHaveLength(1);
  expect(validate(retention, snapshot({ keepVersions: 1 }), { exempt: ["data"] })).toEqual([]);
});

it("reports inputs that it cannot read", () => {
  expect(validate(recipeSecrets, snapshot({ recipe: "run" }))).toEqual([
    expect.stringContaining("its inputs cannot be validated"),
  ]);
});

describe("retention", () => {
  it("limits the number of versions", () => {
    expect(validate(retention, snapshot({}))).toEqual([]);
    expect(validate(retention, snapshot({ keepVersions: 20 }))).toEqual([]);
    expect(validate(retention, snapshot({ keepVersions: 21 }))).toEqual([
      "keepVersions is 21; it must be from 2 to 20",
    ]);
    expect(validate(retention, snapshot({ keepVersions: 1 }))).toEqual(["keepVersions is 1; it must be from 2 to 20"]);
    expect(validate(retention, snapshot({ keepVersions: 5 }), { maxVersions: 4 })).toHaveLength(1);
    expect(validate(retention, object("NamedSnapshot", { keepVersions: 1 }, "ramet.dev/v1alpha1"))).toHaveLength(1);
  });

  it("requires that versions outlive their name", () => {
    expect(validate(retention, snapshot({ deletionPolicy: "Retain" }))).toEqual([]);
    expect(validate(retention, snapshot({ deletionPolicy: "Delete" }))).toHaveLength(1);
    expect(validate(retention, snapshot({ deletionPolicy: "Delete" }), { allowDelete: true })).toEqual([]);
  });

  it("requires that checkpoints expire", () => {
    expect(validate(retention, object("Checkpoint", { podName: "a" }))).toHaveLength(1);
    expect(validate(retention, object("Checkpoint", { podName: "a", ttlAfterFinished: "30d" }))).toEqual([]);
  });
});

describe("pinned images", () => {
  const withImage = (image: string, kind = "SandboxTemplate") =>
    object(kind, { template: { spec: { containers: [{ name: "sandbox", image }] } } });

  it.each(["SandboxTemplate", "SandboxSet", "Sandbox"])("checks the images of a %s", (kind) => {
    expect(validate(pinnedImages, withImage("a/python", kind))).toEqual([
      "a/python has neither a digest nor a tag other than latest",
    ]);
    expect(validate(pinnedImages, withImage("a/python:latest", kind))).toHaveLength(1);
    expect(validate(pinnedImages, withImage("a/python:3.13", kind))).toEqual([]);
    expect(validate(pinnedImages, withImage(`a/python@${digest}`, kind))).toEqual([]);
  });

  it("checks init containers and image volumes", () => {
    const spec = {
      initContainers: [{ image: "a" }],
      volumes: [{ name: "v", image: { reference: "b" } }, { name: "e" }],
    };
    expect(validate(pinnedImages, object("Sandbox", { template: { spec } }))).toHaveLength(2);
  });

  it("checks the images of controller and cell, but of no other Deployment", () => {
    const spec = {
      template: { spec: { containers: [{ image: "ramet:1", args: ["controller", "--cell-image", "cell"] }] } },
    };
    const inputs = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "ramet-controller" }, spec };
    const controllers = { type: "kubernetes:apps/v1:Deployment", name: "c", inputs };
    expect(validate(pinnedImages, controllers)).toEqual(["cell has neither a digest nor a tag other than latest"]);
    expect(validate(pinnedImages, object("Deployment", spec, "apps/v1"))).toEqual([]);
  });

  it("ignores a set that starts from a snapshot, and applies settings", () => {
    expect(validate(pinnedImages, object("SandboxSet", { template: { metadata: { annotations: {} } } }))).toEqual([]);
    expect(validate(pinnedImages, withImage("python"), { allowed: ["python"] })).toEqual([]);
    expect(validate(pinnedImages, withImage("python:3"), { digestOnly: true })).toEqual(["python:3 has no digest"]);
    expect(validate(pinnedImages, withImage("Not an image"))).toEqual(["Not an image is not a valid image reference"]);
  });
});

describe("recipe secrets", () => {
  const inStep = (step: object, settings: object = {}) =>
    validate(recipeSecrets, snapshot({ recipe: [{ run: "true" }, step] }), settings);

  it.each([
    ["a private key", { copy: { path: "/k", content: "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl" } }],
    ["a password in a URL", { run: "pip install --index-url https://me:hunter22@pypi.example/simple x" }],
    ["an access key of AWS", { start: `server --key AKIA${"A2".repeat(8)}` }],
    ["an API key of Google", { run: `curl -H AIza${"b".repeat(35)}` }],
    ["an account key of Azure Storage", { env: { CONNECTION: `AccountName=a;AccountKey=${"c".repeat(86)}==` } }],
    ["a token of GitHub", { copy: { path: "/x", url: `https://example.org/?t=ghp_${"d".repeat(36)}` } }],
    ["a token of GitLab", { waitFor: { command: `test glpat-${"e".repeat(20)}` } }],
    ["a token of Slack", { run: `post xoxb-${"1".repeat(12)}` }],
    ["a token of npm", { run: `npm config set token npm_${"f".repeat(36)}` }],
    ["a token of PyPI", { run: `twine -p pypi-AgE${"g".repeat(60)}` }],
    ["an API key that begins with sk-", { run: `call sk-proj-${"h".repeat(40)}` }],
    ["a signed token (JWT)", { run: `curl -H eyJ${"i".repeat(20)}.eyJ${"j".repeat(20)}.${"k".repeat(20)}` }],
    ["a value of the variable DB_PASSWORD", { run: "migrate", env: { DB_PASSWORD: "x" } }],
  ])("finds %s without repeating it", (what, step) => {
    expect(inStep(step)).toEqual([`step 2 contains ${what}`]);
  });

  it.each([
    { run: "pip install pandas==2.3.0 && curl https://example.org:8000/a@b" },
    { run: 'git clone "https://me:$TOKEN@example.org/a"' },
    { copy: { path: "/etc/token", secretKeyRef: { name: "s", key: "token" } } },
    { env: { TOKENIZERS_PARALLELISM: "false", SECRET_FILE: "/etc/token", API_KEY: "" } },
    { run: "echo sk-learn; echo task-0123456789abcdef0123456789abcdef01" },
  ])("accepts %j", (step) => {
    expect(inStep(step)).toEqual([]);
  });

  it("finds values that the program marks as secret and matches of configured patterns", () => {
    expect(validate(recipeSecrets, snapshot({ recipe: [], recipeHoldsSecrets: true }))).toHaveLength(1);
    expect(inStep({ run: "login acme-12345" }, { patterns: ["acme-\\d+"] })).toEqual([
      "step 2 contains a match of pattern 1 of the settings",
    ]);
    expect(() => inStep({ run: "a" }, { patterns: ["("] })).toThrow("is not a regular expression");
  });
});

describe("bounded replicas", () => {
  it.each(["SandboxSet", "SandboxClaim"])("limits the replicas of a %s", (kind) => {
    expect(validate(boundedReplicas, object(kind, { replicas: 100 }))).toEqual([]);
    expect(validate(boundedReplicas, object(kind, {}))).toEqual([]);
    expect(validate(boundedReplicas, object(kind, { replicas: 101 }))).toEqual(["replicas is 101; the maximum is 100"]);
    expect(validate(boundedReplicas, object(kind, { replicas: 3 }), { maxReplicas: 2 })).toHaveLength(1);
  });
});

describe("bounded lifetimes", () => {
  const clone = (inputs: object): PolicyResource => ({
    type: "pulumi-nodejs:dynamic/ramet:SandboxClone",
    name: "dev",
    inputs: { ...inputs },
  });

  it("requires a limited lifetime of clones", () => {
    expect(validate(boundedLifetimes, clone({}))).toEqual(["lifetime is not set; the maximum is 7 days"]);
    expect(validate(boundedLifetimes, clone({ lifetime: "8 hours" }))).toEqual([]);
    expect(validate(boundedLifetimes, clone({ lifetime: "8 days" }))).toEqual([
      "lifetime is 8 days; the maximum is 7 days",
    ]);
    expect(validate(boundedLifetimes, clone({ lifetime: "2h" }), { maxLifetime: "1 hour" })).toHaveLength(1);
    expect(validate(boundedLifetimes, clone({ lifetime: "soon" }))).toEqual([
      expect.stringContaining("cannot be validated"),
    ]);
    expect(() => validate(boundedLifetimes, clone({}), { maxLifetime: "soon" })).toThrow("maxLifetime");
  });

  it.each(["Sandbox", "SandboxClaim"])("requires a shutdown time of a %s", (kind) => {
    expect(validate(boundedLifetimes, object(kind, {}))).toHaveLength(1);
    expect(validate(boundedLifetimes, object(kind, { shutdownTime: "2030-01-07T00:00:00Z" }))).toEqual([]);
    expect(validate(boundedLifetimes, object(kind, { shutdownTime: "2030-01-09T00:00:00Z" }))).toHaveLength(1);
  });
});

describe("private store", () => {
  const block = { blockPublicAcls: true, blockPublicPolicy: true, ignorePublicAcls: true, restrictPublicBuckets: true };
  const policy = (statement: object) => JSON.stringify({ Version: "2012-10-17", Statement: [statement] });
  const iamPolicy = (member: string) =>
    JSON.stringify({ bindings: [{ role: "roles/storage.objectViewer", members: [member] }] });
  const open = { Effect: "Allow", Action: "s3:GetObject", Resource: "*" };

  it.each([
    ["aws:s3/bucket:Bucket", { acl: "public-read" }],
    ["aws:s3/bucketV2:BucketV2", { acl: "authenticated-read" }],
    ["aws:s3/bucketAcl:BucketAcl", { acl: "public-read-write" }],
    [
      "aws:s3/bucketAclV2:BucketAclV2",
      { accessControlPolicy: { grants: [{ grantee: { uri: "http://acs.amazonaws.com/groups/global/AllUsers" } }] } },
    ],
    ["aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock", { ...block, blockPublicPolicy: false }],
    ["aws:s3/bucketPolicy:BucketPolicy", { policy: policy({ ...open, Principal: "*" }) }],
    ["aws:s3/bucketPolicy:BucketPolicy", { policy: policy({ ...open, Principal: { AWS: ["*"] } }) }],
    ["gcp:storage/bucketIAMMember:BucketIAMMember", { member: "allUsers" }],
    ["gcp:storage/bucketIAMBinding:BucketIAMBinding", { members: ["user:a@example.org", "allAuthenticatedUsers"] }],
    ["gcp:storage/bucketAccessControl:BucketAccessControl", { entity: "allUsers" }],
    ["gcp:storage/defaultObjectAccessControl:DefaultObjectAccessControl", { entity: "allUsers" }],
    ["gcp:storage/bucketACL:BucketACL", { predefinedAcl: "publicRead" }],
    ["gcp:storage/bucketIAMPolicy:BucketIAMPolicy", { policyData: iamPolicy("allUsers") }],
    [
      "aws:s3/bucketV2:BucketV2",
      { grants: [{ type: "Group", uri: "http://acs.amazonaws.com/groups/global/AllUsers" }] },
    ],
    ["azure:storage/account:Account", {}],
    ["azure:storage/container:Container", { containerAccessType: "blob" }],
    ["azure-native:storage:StorageAccount", { allowBlobPublicAccess: true }],
    ["azure-native:storage/v20230101:BlobContainer", { publicAccess: "Container" }],
  ])("rejects a %s of %j", (type, inputs) => {
    expect(validate(privateStore, { type, name: "store", inputs })).toEqual([
      expect.stringMatching(/^it is public: ./),
    ]);
  });

  it.each([
    ["aws:s3/bucket:Bucket", { acl: "private" }],
    ["aws:s3/bucket:Bucket", {}],
    ["aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock", block],
    [
      "aws:s3/bucketPolicy:BucketPolicy",
      { policy: policy({ ...open, Principal: { AWS: "arn:aws:iam::1:role/ramet" } }) },
    ],
    ["aws:s3/bucketPolicy:BucketPolicy", { policy: policy({ ...open, Effect: "Deny", Principal: "*" }) }],
    ["gcp:storage/bucketIAMMember:BucketIAMMember", { member: "serviceAccount:ramet@example.org" }],
    ["gcp:storage/bucketACL:BucketACL", { predefinedAcl: "projectPrivate" }],
    ["gcp:storage/bucketIAMPolicy:BucketIAMPolicy", { policyData: iamPolicy("user:a@example.org") }],
    ["aws:s3/bucketV2:BucketV2", { grants: [{ type: "CanonicalUser", id: "a", permissions: ["FULL_CONTROL"] }] }],
    ["azure:storage/account:Account", { allowNestedItemsToBePublic: false }],
    ["azure:storage/container:Container", { containerAccessType: "private" }],
    ["azure:cosmosdb/account:Account", {}],
    ["azure-native:storage:StorageAccount", { allowBlobPublicAccess: false }],
    ["azure-native:storage:BlobContainer", { publicAccess: "None" }],
  ])("accepts a %s of %j", (type, inputs) => {
    expect(validate(privateStore, { type, name: "store", inputs })).toEqual([]);
  });
});
