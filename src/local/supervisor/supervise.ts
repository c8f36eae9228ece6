import { mkdir } from "node:fs/promises";
import { pino } from "pino";
import { sandboxTemplateKind } from "../../api/kinds/sandbox-template.ts";
import { systemNamespace } from "../../api/names/system-names.ts";
import { type Clock, delay, systemClock, untilAborted } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { identifyProcess } from "../../base/process-identity.ts";
import { installCrds } from "../../controllers/install-crds.ts";
import { admissionPolicies } from "../../install/admission-policies.ts";
import { clientRole } from "../../install/http-server-rights.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { refOf } from "../../kube/resource-ref.ts";
import type { ClusterDirectory } from "../cluster-directory.ts";
import { readSetting } from "../cluster-setting.ts";
import { type ClusterStatus, type PartStatus, writeStatus } from "../cluster-status.ts";
import { keepDomainCertificate } from "../control-plane/domain-certificate.ts";
import { collectGarbage } from "../garbage-collector.ts";
import { packageRoot } from "../tools/tool.ts";
import { type ClusterParts, type ClusterPartsOptions, clusterParts, reservedPort } from "./parts.ts";
import { prepareSnapshots } from "./prepare-snapshots.ts";
import { applyManifest, clusterTemplates, seedVolumes, snapshotCrds, withClient } from "./seed-cluster.ts";
import { type VolumeParts, runVolumeParts, volumeParts } from "./volume-parts.ts";

/**
 * Runs a local cluster until `signal` is aborted: etcd, the API server, the controller, the gateway, the client API and the node. A process
 * that ends is restarted. `up`, `down` and `status` read the cluster's state from its status file. SIGUSR2 restarts the
 * controller, the gateway and the client API; `scripts/dev.mjs` sends it after a build.
 */
export async function superviseCluster(directory: ClusterDirectory, signal: AbortSignal): Promise<void> {
  const clock = systemClock;
  const setting = await readSetting(directory.setting);
  await mkdir(directory.store, { recursive: true, mode: 0o700 });
  const report = new Report(directory, clock);
  const onChange = (part: PartStatus): void => {
    report.part(part);
  };
  const options = { directory, setting, clock, onChange };
  const parts = clusterParts(options);
  const volumes = volumeParts(options);
  process.on("SIGUSR2", () => {
    parts.controller.restart();
    parts.gateway.restart();
    parts.clientApi.restart();
  });
  const stopRenewing = new AbortController();
  const renewing = renewDaily(options, stopRenewing.signal);
  const failure = await bringUp(directory, parts, report, signal).catch((error: unknown) => RametError.from(error));
  const background =
    failure === undefined ? [runVolumes(options, volumes, signal), runCollector(directory, signal)] : [];
  if (failure === undefined) await untilAborted(signal);
  report.phase("stopping");
  await bringDown(parts, volumes);
  await Promise.all(background);
  stopRenewing.abort();
  await renewing;
  if (failure === undefined || signal.aborted) report.phase("down");
  else report.phase("failed", failure.describe());
}

/** A cluster can run for longer than a certificate is valid. The gateway makes the first one when it starts. */
async function renewDaily({ directory, setting, clock }: ClusterPartsOptions, signal: AbortSignal): Promise<void> {
  for (;;) {
    await delay(clock, 86_400_000, signal).catch(() => undefined);
    if (signal.aborted) return;
    await keepDomainCertificate(directory.tls, setting.domain, clock.now()).catch((error: unknown) => {
      process.stderr.write(`Renewing the certificate of ${setting.domain} failed: ${RametError.from(error).message}\n`);
    });
  }
}

async function bringUp(
  directory: ClusterDirectory,
  parts: ClusterParts,
  report: Report,
  signal: AbortSignal,
): Promise<undefined> {
  await parts.etcd.run();
  await parts.apiServer.run();
  await withClient(directory, async (client) => {
    // The gateway gets the address of the client API, and both start at the same time.
    await reservedPort(directory.clientApiPort);
    // The node does not wait for the kinds, because Pods of an earlier run may still be running.
    const servers = () => Promise.all([parts.controller.run(), parts.gateway.run(), parts.clientApi.run()]);
    await Promise.all([parts.node.run(), seedCluster(client, signal).then(servers), seedVolumes(client, signal)]);
  });
  if (!signal.aborted) report.phase("up");
  return undefined;
}

/** Its own connection: that of the start is closed. */
async function runVolumes(options: ClusterPartsOptions, parts: VolumeParts, signal: AbortSignal): Promise<void> {
  const run = async (client: KubeClient): Promise<void> => {
    const hasSnapshots = (await snapshotCrds(packageRoot())) !== undefined;
    const prepared = hasSnapshots ? prepareSnapshots(client, options, signal) : Promise.resolve();
    await Promise.all([prepared, runVolumeParts(client, parts, { hasSnapshots, prepared }, signal)]);
  };
  await withClient(options.directory, run).catch((error: unknown) => {
    if (!signal.aborted) process.stderr.write(`Running the volumes failed: ${RametError.from(error).describe()}\n`);
  });
}

/** Its own connection, because it reads only metadata. The collector retries what fails. */
async function runCollector(directory: ClusterDirectory, signal: AbortSignal): Promise<void> {
  const log = pino({ name: "garbage-collector" }, pino.destination(2));
  await withClient(directory, (client) => collectGarbage({ client, log }, signal), { metadataOnly: true });
}

/** Each part stops before the parts it needs: the node stops its Pods and reports that to the API server. */
async function bringDown(
  { controller, gateway, clientApi, node, apiServer, etcd }: ClusterParts,
  { driver, snapshots }: VolumeParts,
): Promise<void> {
  await Promise.all([controller, gateway, clientApi, ...snapshots].map((part) => part.stop()));
  await node.stop();
  await driver.stop();
  await apiServer.stop();
  await etcd.stop();
}

class Report {
  readonly #path: string;
  #status: ClusterStatus;

  constructor({ name, status }: ClusterDirectory, clock: Clock) {
    const supervisor = identifyProcess(process.pid);
    if (supervisor === undefined)
      throw new RametError("Internal", "Starting the supervisor failed: its process is not in /proc");
    this.#path = status;
    const startedAt = clock.now().toISOString();
    this.#status = { v: 1, name, phase: "starting", supervisor, startedAt, parts: [] };
    this.#write({});
  }

  phase(phase: ClusterStatus["phase"], message?: string): void {
    this.#write(defined({ phase, message }));
  }

  part(part: PartStatus): void {
    const others = this.#status.parts.filter(({ name }) => name !== part.name);
    this.#write({ parts: [...others, part] });
  }

  #write(change: Partial<ClusterStatus>): void {
    this.#status = { ...this.#status, ...change };
    writeStatus(this.#path, this.#status);
  }
}

/** Creates the objects of a new cluster: the kinds, the admission policies, Ramet's namespace, and the templates of its images. */
async function seedCluster(client: KubeClient, signal: AbortSignal): Promise<void> {
  await Promise.all([installCrds(client, signal), installObjects(client, signal)]);
  const templates = client.resource(refOf(sandboxTemplateKind));
  for (const template of clusterTemplates) {
    const { metadata } = template;
    // A user may have changed it.
    if ((await templates.find(metadata, { signal })) === undefined) await templates.create(template, { signal });
  }
}

/**
 * Ramet's namespace, the policies of an installation and the role of users of the client API: the cluster's owner can give other
 * users rights, as on any other cluster.
 */
async function installObjects(client: KubeClient, signal: AbortSignal): Promise<void> {
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: systemNamespace } };
  const manifests = [namespace, ...admissionPolicies(), clientRole()];
  await Promise.all(manifests.map((manifest) => applyManifest(client, manifest, signal)));
}
