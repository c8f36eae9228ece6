import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { memoryIo } from "../../../test/setup/memory-io.ts";
import { clusterRights, systemRights } from "../../install/controller-rights.ts";
import {
  gatewayClusterRights,
  gatewayExecRights,
  gatewayKeyRights,
  gatewaySystemRights,
  clientRights,
} from "../../install/http-server-rights.ts";
import { privateRanges } from "../../install/manifest.ts";
import { allManifests } from "../../install/manifests.ts";
import { exitCodes } from "../report-error.ts";
import { runProgram } from "../program.ts";

const hosts = ["*.sandboxes.example.org", "sandboxes.example.org"];
const externalDns = "external-dns.alpha.kubernetes.io/hostname";

let directory: string;
beforeEach(async () => (directory = await mkdtemp(join(tmpdir(), "ramet-manifests-"))));
afterEach(() => rm(directory, { recursive: true, force: true }));

const images = ["--image", "registry.example/ramet:1", "--cell-image", "registry.example/cell:1"];
const options = {
  image: "registry.example/ramet:1",
  cellImage: "registry.example/cell:1",
  namespace: "ramet-system",
  replicas: 2,
  gatewayReplicas: 2,
  clientApiReplicas: 0,
  store: { directory: "/var/lib/ramet", claim: "ramet-store" },
  clusterRanges: privateRanges,
};

async function run(...args: string[]) {
  const io = memoryIo();
  const exitCode = await runProgram(io, ["manifests", ...images, ...args]);
  return { exitCode, stdout: io.written("stdout"), stderr: io.written("stderr") };
}

it.each(["1.1", "1.2"] as const)("prints the declared manifests for parsers of YAML %s", async (version) => {
  const { exitCode, stdout, stderr } = await run();
  expect(exitCode).toBe(0);
  const printed = parseAllDocuments(stdout, { version }).map((document) => document.toJS() as unknown);
  expect(printed).toEqual(allManifests(options));
  expect(stderr).toContain(
    "The PersistentVolumeClaim ramet-store in the namespace ramet-system must be created by you",
  );
});

it("denies sandboxes the private ranges, the given ranges or none", async () => {
  const ranges = async (...args: string[]) => {
    const documents = parseAllDocuments((await run(...args)).stdout).map((document) => document.toJS() as Installed);
    const given = documents.find(({ kind }) => kind === "Deployment")?.spec?.template?.spec.containers[0]?.args ?? [];
    return given.filter((_, at) => given[at - 1] === "--cluster-range");
  };
  expect(await ranges()).toEqual(privateRanges);
  expect(await ranges("--cluster-range", "10.1.0.0/16", "10.2.0.0/16")).toEqual(["10.1.0.0/16", "10.2.0.0/16"]);
  expect(await ranges("--no-cluster-range")).toEqual([]);
  expect(await run("--cluster-range", "10.0.0.300/8")).toMatchObject({ exitCode: 2, stdout: "" });
});

it("passes the quotas of namespaces to the controllers, and names the invalid one", async () => {
  const { stdout } = await run("--namespace-store-bytes", "100Gi", "--namespace-builds", "unlimited");
  expect(stdout).toContain(
    "- --namespace-store-bytes\n            - 100Gi\n            - --namespace-builds\n            - unlimited\n",
  );
  const { exitCode, stderr } = await run("--namespace-checkpoints", "many");
  expect([exitCode, stderr]).toEqual([
    2,
    expect.stringContaining('--namespace-checkpoints is "many", not a whole number'),
  ]);
});

it("refuses a size of the nodes' caches without their path", async () => {
  const { exitCode, stderr } = await run("--node-cache-size", "5Gi");
  expect([exitCode, stderr]).toEqual([
    2,
    expect.stringContaining("--node-cache-size can only be used with --node-cache-path"),
  ]);
});

it("passes cell images of earlier engines to the controllers, and refuses invalid ones", async () => {
  const [one, two] = ["3fb1c0a9d2e4=registry.example/cell:1", "0123456789ab=registry.example/cell:2"] as const;
  const { stdout } = await run("--earlier-cell-image", one, two);
  expect(stdout).toContain(
    `- --earlier-cell-image\n            - ${one}\n            - --earlier-cell-image\n            - ${two}\n`,
  );
  for (const invalid of ["cell:1", "xyz=cell:1", "3fb1c0a9d2e4=", "3fb1c0a9d2e4=Not An Image"]) {
    expect(await run("--earlier-cell-image", invalid)).toMatchObject({ exitCode: 2, stdout: "" });
  }
});

it("limits controllers and the policies for their objects to the selected namespaces, and names an invalid selector", async () => {
  const { stdout } = await run("--namespace-selector", "team in (a,b),!legacy");
  expect(stdout).toContain("- --namespace-selector\n            - team in (a,b),!legacy\n");
  const matchExpressions = [
    { key: "team", operator: "In", values: ["a", "b"] },
    { key: "legacy", operator: "DoesNotExist" },
  ];
  const scoped = parseAllDocuments(stdout)
    .map((document) => document.toJS() as { metadata: { name: string }; spec?: { matchConstraints?: object } })
    .filter(({ spec }) => JSON.stringify(spec?.matchConstraints ?? {}).includes(JSON.stringify(matchExpressions)))
    .map(({ metadata }) => metadata.name);
  expect(scoped).toEqual([
    "ramet-cell-owners",
    "ramet-templates",
    "ramet-template-references",
    "ramet-recipe-references",
    "ramet-credential-references",
    "ramet-sealed-credentials",
  ]);
  const { exitCode, stderr } = await run("--namespace-selector", "team in a");
  expect([exitCode, stderr]).toEqual([
    2,
    expect.stringContaining('--namespace-selector is not a label selector: "team in a"'),
  ]);
});

it("passes the Secret for encryption to the controllers, and says that it must be created", async () => {
  const { stdout, stderr } = await run("--encryption-secret", "ramet-encryption");
  expect(stdout).toContain("- --encryption-secret\n            - ramet-encryption\n");
  expect(stderr).toContain("The Secret ramet-encryption in the namespace ramet-system must be created by you.");
  expect((await run("--encryption-secret", "No_Name")).stderr).toContain(
    '--encryption-secret is not an object name: "No_Name"',
  );
});

it("sweeps the caches of nodes, if they have one, by a program that lists namespaces and does nothing else", async () => {
  const sweepers = async (...args: string[]) =>
    parseAllDocuments((await run(...args)).stdout)
      .map((document) => document.toJS() as Installed)
      .filter(({ metadata }) => metadata.name === "ramet-node-cache");
  expect(await sweepers()).toEqual([]);
  const found = await sweepers("--node-cache-path", "/var/lib/ramet/cache", "--namespace", "runtime");
  const of = (kind: string) => found.filter((one) => one.kind === kind);
  expect(found.map(({ kind }) => kind).sort()).toEqual(
    ["ClusterRole", "ClusterRoleBinding", "DaemonSet", "NetworkPolicy", "ServiceAccount"].sort(),
  );
  expect(of("ClusterRole")).toMatchObject([
    { rules: [{ apiGroups: [""], resources: ["namespaces"], verbs: ["list"] }] },
  ]);
  expect(of("ClusterRoleBinding")).toMatchObject([{ subjects: [{ name: "ramet-node-cache", namespace: "runtime" }] }]);
  expect(of("DaemonSet")[0]?.spec?.template?.spec).toMatchObject({
    containers: [{ image: options.cellImage, securityContext: { allowPrivilegeEscalation: false } }],
    volumes: [{ hostPath: { path: "/var/lib/ramet/cache" } }],
  });
});

it("passes egress rules to the controllers, and names the invalid one", async () => {
  const { stdout } = await run("--egress-default", "deny", "--egress-allow", "*.example.org:443", "10.0.0.0/8");
  const deployment = parseAllDocuments(stdout)
    .map((document) => document.toJS() as Installed)
    .find(({ kind }) => kind === "Deployment");
  const args = deployment?.spec?.template?.spec.containers[0]?.args.join(" ");
  expect(args).toContain("--egress-default deny --egress-allow *.example.org:443 --egress-allow 10.0.0.0/8");
  const refused = await run("--egress-allow", "example.org", "169.254.169.254");
  expect(refused).toMatchObject({ exitCode: 2, stdout: "" });
  expect(refused.stderr).toContain("--egress-allow[1]: 169.254.169.254 is an address of metadata services");
});

it("passes the settings of the gateways to them in flags that they accept, and names the invalid one", async () => {
  const limits = ["", "-per-client", "-per-namespace", "-per-sandbox"].flatMap((each, at) => [
    `--max-connections${each}`,
    String(at + 1),
  ]);
  const flags = ["--trusted-proxy", "10.0.0.0/16", ...limits, "--accept-tokens-by-review-only"];
  const { stdout } = await run(...flags.map((flag) => flag.replace(/^--/, "--gateway-")));
  const deployments = parseAllDocuments(stdout)
    .map((document) => document.toJS() as Installed)
    .filter(({ kind }) => kind === "Deployment");
  const args = deployments[1]?.spec?.template?.spec.containers[0]?.args ?? [];
  expect(args.slice(-flags.length)).toEqual(flags);
  const io = memoryIo();
  // A flag that the gateway does not know would be wrong usage. The kubeconfig is not found later.
  expect(await runProgram(io, [...args, "--kubeconfig", join(directory, "missing")])).toBe(exitCodes.notFound);
  expect(io.written("stderr")).toContain("missing");
  const refused = await run("--gateway-max-connections", "0");
  expect(refused).toMatchObject({ exitCode: 2, stdout: "" });
  expect(refused.stderr).toContain("--gateway-max-connections must be at least 1");
});

it("mounts the Secret with the gateways' certificate, and serves only TLS then", async () => {
  const { stdout, stderr } = await run("--gateway-tls-secret", "gateway-tls");
  const objects = parseAllDocuments(stdout).map((document) => document.toJS() as Installed);
  const own = (kind: string) => objects.find((one) => one.kind === kind && one.metadata.name === "ramet-gateway");
  const pod = own("Deployment")?.spec?.template?.spec;
  expect(pod?.volumes).toEqual([{ name: "tls", secret: { secretName: "gateway-tls" } }]);
  const { args = [], ...container } = pod?.containers[0] ?? {};
  expect(container).toMatchObject({ volumeMounts: [{ name: "tls", mountPath: "/etc/ramet/tls", readOnly: true }] });
  expect(args.slice(-4)).toEqual([
    "--tls-certificate",
    "/etc/ramet/tls/tls.crt",
    "--tls-key",
    "/etc/ramet/tls/tls.key",
  ]);
  expect(own("Service")?.spec?.ports).toEqual([{ name: "https", port: 443, targetPort: "http" }]);
  expect(stderr).toContain("The Secret gateway-tls in the namespace ramet-system must be created by you.");
  expect((await run("--gateway-tls-secret", "No_Name")).stderr).toContain(
    '--gateway-tls-secret is not an object name: "No_Name"',
  );
});

it.each([
  [
    ["--gateway-tls-issuer", "letsencrypt", "--gateway-service", "LoadBalancer"],
    {
      kind: "Certificate",
      spec: {
        secretName: "ramet-gateway-tls",
        dnsNames: hosts,
        issuerRef: { kind: "ClusterIssuer", name: "letsencrypt" },
      },
    },
    "https://sandboxes.example.org",
    {
      metadata: { annotations: { [externalDns]: "*.sandboxes.example.org,sandboxes.example.org" } },
      spec: { type: "LoadBalancer", ports: [{ port: 443 }] },
    },
  ],
  [
    ["--gateway-tls-issuer", "letsencrypt", "--gateway-ingress", "nginx"],
    {
      kind: "Ingress",
      metadata: { annotations: { "cert-manager.io/cluster-issuer": "letsencrypt" } },
      spec: {
        ingressClassName: "nginx",
        rules: hosts.map((host) => ({
          host,
          http: { paths: [{ backend: { service: { name: "ramet-gateway", port: { number: 80 } } } }] },
        })),
        tls: [{ hosts, secretName: "ramet-gateway-tls" }],
      },
    },
    "https://sandboxes.example.org",
    { spec: { ports: [{ port: 80 }] } },
  ],
  [
    ["--gateway-route", "infra/public/https"],
    {
      kind: "HTTPRoute",
      spec: {
        parentRefs: [{ namespace: "infra", name: "public", sectionName: "https" }],
        hostnames: hosts,
        rules: [{ backendRefs: [{ name: "ramet-gateway", port: 80 }] }],
      },
    },
    "https://sandboxes.example.org",
    { spec: { ports: [{ port: 80 }] } },
  ],
  [[], undefined, "http://sandboxes.example.org", { spec: { ports: [{ port: 80 }] } }],
])("leads the domain of sandboxes to the gateways with %j", async (flags, added, url, service) => {
  const { stdout } = await run("--gateway-domain", "sandboxes.example.org", "--client-api-replicas", "1", ...flags);
  const objects = parseAllDocuments(stdout).map((document) => document.toJS() as Installed);
  const inFront = objects.filter(({ kind }) => ["Certificate", "Ingress", "HTTPRoute"].includes(kind));
  expect(inFront).toMatchObject(added === undefined ? [] : [added]);
  const named = (kind: string, name: string) => objects.find((one) => one.kind === kind && one.metadata.name === name);
  expect(named("Service", "ramet-gateway")).toMatchObject(service);
  expect(named("ConfigMap", "ramet-gateway-address")).toMatchObject({ data: { url, domain: "sandboxes.example.org" } });
  const clientApi = named("Deployment", "ramet-client-api")?.spec?.template?.spec.containers[0]?.args;
  expect(clientApi?.join(" ")).toContain("--domain sandboxes.example.org");
});

it("refuses what needs a domain without it, and two ways to the gateways", async () => {
  const { exitCode, stderr } = await run("--gateway-ingress", "nginx");
  expect({ exitCode, stderr }).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining("--gateway-ingress can only be used with --gateway-domain") as string,
  });
  const both = ["--gateway-domain", "example.org", "--gateway-ingress", "nginx", "--gateway-route", "infra/public"];
  expect((await run(...both)).exitCode).toBe(2);
  expect((await run("--gateway-domain", "example.org", "--gateway-route", "public")).stderr).toContain(
    '--gateway-route is not a Gateway, such as infra/public or infra/public/https: "public"',
  );
});

it("lets the gateways proxy the requests of clients to the client API, if it is installed", async () => {
  const gatewayArgs = async (...args: string[]) => {
    const objects = parseAllDocuments((await run(...args)).stdout).map((document) => document.toJS() as Installed);
    const own = objects.find(({ kind, metadata }) => kind === "Deployment" && metadata.name === "ramet-gateway");
    return own?.spec?.template?.spec.containers[0]?.args ?? [];
  };
  expect((await gatewayArgs("--client-api-replicas", "2")).slice(-2)).toEqual([
    "--client-api",
    "http://ramet-client-api.ramet-system.svc",
  ]);
  expect(await gatewayArgs()).not.toContain("--client-api");
});

it("publishes the address of the gateways to all users, and leaves out the right to enter sandboxes", async () => {
  const ca = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
  const caFile = join(directory, "ca.crt");
  await writeFile(caFile, ca);
  const objects = async (...args: string[]) =>
    parseAllDocuments((await run(...args)).stdout).map((document) => document.toJS() as Installed & { data?: object });
  const published = await objects("--gateway-url", "https://gateway.example.org", "--gateway-ca-file", caFile);
  const map = published.find(({ kind }) => kind === "ConfigMap");
  expect(map).toMatchObject({ metadata: { name: "ramet-gateway-address", namespace: "ramet-system" } });
  expect(map?.data).toEqual({ url: "https://gateway.example.org", "ca.crt": ca });
  expect(JSON.stringify(published)).toContain("ramet-guest-key");
  const closed = await objects("--no-gateway-exec");
  expect(closed.find(({ kind }) => kind === "ConfigMap")).toBeUndefined();
  expect(JSON.stringify(closed)).not.toContain("ramet-guest-key");
  expect(JSON.stringify(closed)).toContain("--no-exec");
  const refused = await run("--gateway-url", "https://gateway.example.org/path");
  expect(refused).toMatchObject({ exitCode: 2, stdout: "" });
  expect(refused.stderr).toContain("--gateway-url is not the http or https address of a gateway, without a path");
});

it("lets only namespaces that an administrator chose connect to the metrics ports, unless told otherwise", async () => {
  const policies = async (...args: string[]) =>
    parseAllDocuments((await run(...args)).stdout)
      .map(
        (document) =>
          document.toJS() as { kind: string; spec: { ingress: { ports: { port: string }[]; from?: object }[] } },
      )
      .filter(({ kind }) => kind === "NetworkPolicy")
      .flatMap(({ spec }) => spec.ingress.map(({ ports, from }) => [ports.map(({ port }) => port).join(), from]));
  const open = (from?: object[]) => [
    ["metrics", from],
    ["http", undefined],
    ["metrics", from],
  ];
  const labeled = (matchLabels: object) => [{ namespaceSelector: { matchLabels } }];
  expect(await policies()).toEqual(open(labeled({ "ramet.dev/allow-metrics": "true" })));
  const monitoring = labeled({ "kubernetes.io/metadata.name": "monitoring" });
  expect(await policies("--metrics-namespace", "monitoring")).toEqual(open(monitoring));
  expect(await policies("--metrics-from-all-namespaces")).toEqual(open());
  const both = await run("--metrics-from-all-namespaces", "--metrics-namespace", "monitoring");
  expect(both.stderr).toContain("cannot be used with");
  expect((await run("--metrics-namespace", "No_Name")).stderr).toContain("--metrics-namespace is not a DNS label");
});

it("configures a store in S3 by its address, with a role and without a volume or a warning", async () => {
  const address = "s3://checkpoints/ramet?region=eu-central-1";
  const roleArn = "arn:aws:iam::123456789012:role/ramet";
  const { stdout, stderr } = await run("--store", address, "--store-role-arn", roleArn);
  expect(stderr).toBe("");
  const documents = parseAllDocuments(stdout).map((document) => document.toJS() as Installed);
  expect(documents).toEqual(allManifests({ ...options, store: { address, roleArn } }));
  const account = documents.find(({ kind }) => kind === "ServiceAccount");
  expect(account?.metadata.annotations).toEqual({ "eks.amazonaws.com/role-arn": roleArn });
  const pod = documents.find(({ kind }) => kind === "Deployment")?.spec?.template?.spec;
  expect(pod?.volumes).toEqual([expect.objectContaining({ name: "tmp" })]);
  expect(pod?.containers[0]?.args).toEqual(expect.arrayContaining(["--store", address]));
  expect(pod?.containers[0]?.args).not.toContain("--store-directory");
});

it("configures a store in Google Cloud Storage by its address and a service account", async () => {
  const [address, email] = ["gs://checkpoints/ramet", "ramet@project.iam.gserviceaccount.com"];
  const { stdout, stderr } = await run("--store", address, "--store-service-account", email);
  expect(stderr).toBe("");
  const documents = parseAllDocuments(stdout).map((document) => document.toJS() as Installed);
  const account = documents.find(({ kind }) => kind === "ServiceAccount");
  expect(account?.metadata.annotations).toEqual({ "iam.gke.io/gcp-service-account": email });
  const pod = documents.find(({ kind }) => kind === "Deployment")?.spec?.template?.spec;
  expect(pod?.containers[0]?.args).toEqual(expect.arrayContaining(["--store", address]));
});

it("configures a store in Azure by its address and the controllers' AKS workload identity", async () => {
  const address = "azblob://checkpoints/ramet?account=agents";
  const [clientId, tenantId] = ["11111111-2222-4333-8444-555555555555", "66666666-7777-4888-8999-000000000000"];
  const { stdout, stderr } = await run(
    "--store",
    address,
    "--store-client-id",
    clientId,
    "--store-tenant-id",
    tenantId,
  );
  expect(stderr).toBe("");
  const documents = parseAllDocuments(stdout).map((document) => document.toJS() as Installed);
  const account = documents.find(({ kind }) => kind === "ServiceAccount");
  expect(account?.metadata.annotations).toEqual({
    "azure.workload.identity/client-id": clientId,
    "azure.workload.identity/tenant-id": tenantId,
  });
  const template = documents.find(({ kind }) => kind === "Deployment")?.spec?.template;
  expect(template?.metadata.labels).toMatchObject({ "azure.workload.identity/use": "true" });
  expect(template?.spec.containers[0]?.args).toEqual(expect.arrayContaining(["--store", address]));
});

it("reads the keys of a store from a Secret that the user creates", async () => {
  const { stdout, stderr } = await run(
    "--store",
    "s3://checkpoints?endpoint=https://s3.example.com",
    "--store-secret",
    "keys",
  );
  expect(stderr).toBe("The Secret keys in the namespace ramet-system must be created by you.\n");
  const documents = parseAllDocuments(stdout).map((document) => document.toJS() as Installed);
  const pod = documents.find(({ kind }) => kind === "Deployment")?.spec?.template?.spec;
  expect(pod?.containers[0]?.envFrom).toEqual([{ secretRef: { name: "keys" } }]);
});

it.each([
  [["--store", "ftp://checkpoints"], "--store is not valid: ftp://checkpoints is not the address of a store"],
  [
    ["--store", "s3://checkpoints", "--store-role-arn", "ramet"],
    '--store-role-arn is not the ARN of an IAM role: "ramet"',
  ],
  [
    ["--store", "gs://checkpoints", "--store-service-account", "r@example.com"],
    "--store-service-account is not the email address",
  ],
  [["--store", "s3://checkpoints", "--store-secret", "No_Name"], '--store-secret is not an object name: "No_Name"'],
  [["--store", "s3://checkpoints", "--store-claim", "c"], "--store-claim"],
  [
    ["--store", "azblob://checkpoints?account=agents", "--store-client-id", "me"],
    "--store-client-id is not an Entra ID identifier",
  ],
  [
    ["--store", "azblob://checkpoints?account=agents", "--store-role-arn", "arn:aws:iam::123456789012:role/ramet"],
    "--store-role-arn does not apply to azblob://checkpoints?account=agents: it is for another cloud",
  ],
  [["--store-secret", "keys"], "can only be used with --store"],
])("rejects %j as wrong usage", async (args, message) => {
  const { exitCode, stdout, stderr } = await run(...args);
  expect(stderr).toContain(message);
  expect([exitCode, stdout]).toEqual([2, ""]);
});

it("prints the reason for each right", async () => {
  const { stdout } = await run();
  const ofServers = [...clusterRights, ...systemRights, ...gatewayClusterRights, ...gatewaySystemRights];
  for (const { why } of [...ofServers, ...gatewayExecRights, ...gatewayKeyRights, ...clientRights])
    expect(stdout).toContain(`# ${why}\n`);
});

it("keeps the rights on the lease and the key in the system namespace when controllers run in another one", async () => {
  const { stdout } = await run("--namespace", "platform");
  const documents = parseAllDocuments(stdout).map((document) => document.toJS() as Placed);
  const places = documents
    .filter(({ kind }) => kind !== "CustomResourceDefinition" && !kind.startsWith("ValidatingAdmissionPolicy"))
    .map(({ kind, metadata }) => [kind, metadata.namespace ?? metadata.name]);
  expect(places).toEqual([
    ["Namespace", "ramet-system"],
    ["Namespace", "platform"],
    ["ServiceAccount", "platform"],
    ["ClusterRole", "ramet-controller"],
    ["ClusterRoleBinding", "ramet-controller"],
    ["Role", "ramet-system"],
    ["RoleBinding", "ramet-system"],
    ["Deployment", "platform"],
    ["PodDisruptionBudget", "platform"],
    ["Service", "platform"],
    ["NetworkPolicy", "platform"],
    ["ServiceAccount", "platform"],
    ["ClusterRole", "ramet-gateway"],
    ["ClusterRoleBinding", "ramet-gateway"],
    ["Role", "ramet-system"],
    ["RoleBinding", "ramet-system"],
    ["Deployment", "platform"],
    ["PodDisruptionBudget", "platform"],
    ["Service", "platform"],
    ["Service", "platform"],
    ["NetworkPolicy", "platform"],
    ["ClusterRole", "ramet-client"],
  ]);
  expect(documents.find(({ kind }) => kind === "RoleBinding")?.subjects).toMatchObject([{ namespace: "platform" }]);
});

it("limits the rights to the served namespaces, with the reason for each", async () => {
  const { stdout } = await run("--served-namespace", "team-a", "team-b", "team-a");
  const documents = parseAllDocuments(stdout).map((document) => document.toJS() as Placed);
  const placesOf = (wanted: string) =>
    documents.flatMap(({ kind, metadata: { name, namespace } }) => (kind === wanted ? [`${namespace} ${name}`] : []));
  expect(placesOf("Role")).toEqual([
    "ramet-system ramet-controller",
    "team-a ramet-controller",
    "team-b ramet-controller",
    "ramet-system ramet-gateway",
    "team-a ramet-gateway",
    "team-b ramet-gateway",
  ]);
  expect(placesOf("NetworkPolicy")).toEqual([
    "ramet-system ramet-controller",
    "team-a ramet-cells",
    "team-b ramet-cells",
    "ramet-system ramet-gateway",
  ]);
  const bound = documents.flatMap(({ kind, metadata }) => (kind === "ClusterRoleBinding" ? [metadata.name] : []));
  const roles = documents.filter(({ kind, metadata }) => kind === "ClusterRole" && bound.includes(metadata.name));
  const everywhere = roles.flatMap(({ rules = [] }) => rules);
  const open = everywhere.filter(({ resourceNames }) => resourceNames === undefined);
  expect(open.flatMap(({ resources = [] }) => resources).sort()).toEqual([
    "nodes",
    "persistentvolumes",
    "storageclasses",
    "subjectaccessreviews",
    "tokenreviews",
    "volumegroupsnapshotclasses",
    "volumegroupsnapshotcontents",
    "volumesnapshotclasses",
    "volumesnapshotcontents",
  ]);
  for (const { why, scope } of clusterRights) expect(stdout.includes(`# ${why}\n`)).toBe(scope !== "namespaces");
  expect(stdout.match(/- --served-namespace\n +- team-a\n +- --served-namespace\n +- team-b\n/g)).toHaveLength(2);

  const system = await run("--served-namespace", "ramet-system");
  expect([system.exitCode, system.stderr]).toEqual([
    2,
    expect.stringContaining("--served-namespace contains ramet-system, which has the keys of all cells"),
  ]);
});

it("writes a directory that kustomize reads, and rewrites it", async () => {
  const out = join(directory, "new", "ramet");
  const first = await run("--out", out);
  expect(first).toMatchObject({ exitCode: 0, stdout: `${join(out, "kustomization.yaml")}\n` });
  await run("--out", out, "--replicas", "3");
  const { resources } = parse(await readFile(join(out, "kustomization.yaml"), "utf8")) as { resources: string[] };
  expect([...resources, "kustomization.yaml"].sort()).toEqual((await readdir(out)).sort());
  const texts = await Promise.all(resources.map((name) => readFile(join(out, name), "utf8")));
  const written = texts.flatMap((text) => parseAllDocuments(text).map((document) => document.toJS() as unknown));
  expect(written).toHaveLength(allManifests(options).length);
  expect(written).toEqual(expect.arrayContaining(allManifests({ ...options, replicas: 3 })));
});

it("does not overwrite files that it did not write", async () => {
  await writeFile(join(directory, "kustomization.yaml"), "resources: []\n");
  const { exitCode, stderr } = await run("--out", directory);
  expect(exitCode).toBe(1);
  expect(stderr).toContain("[AlreadyExists]");
  expect(await readdir(directory)).toEqual(["kustomization.yaml"]);
});

interface Installed {
  kind: string;
  metadata: { name: string; annotations?: object };
  spec?: {
    ports?: object[];
    template?: {
      metadata: { labels?: object };
      spec: { volumes?: unknown; containers: { args: string[]; envFrom?: unknown }[] };
    };
  };
}

interface Placed {
  kind: string;
  metadata: { name: string; namespace?: string };
  subjects?: unknown;
  rules?: { resources?: string[]; resourceNames?: string[] }[];
}
