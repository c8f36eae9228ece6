import { ApiKey } from "../../api/kinds/api-key.ts";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import { isCloneable } from "../../api/state/checkpoint.ts";
import { problemIn } from "../../api/state/problem.ts";
import { Storage } from "../../api/state/storage.ts";
import { findCondition, isConditionTrue } from "../../kube/conditions.ts";
import { type KubeObject, controllerOf } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { ignoredReport } from "../object/get.ts";
import type { UserKindName } from "../object/user-kind.ts";
import { explainCheckpoint, isFreedByDeletion, withStorage } from "./checkpoint-rules.ts";
import type { Explanation } from "./explanation.ts";
import { explainKey, explainTemplate, withIgnored } from "./other-kind-rules.ts";
import { type Cause, type CommonFacts, NodeFacts, PodFacts, valueOf } from "./facts.ts";
import { type FactReader, absent } from "./read.ts";
import { explainSandbox } from "./sandbox-rules.ts";
import { explainClaim, explainSet } from "./set-rules.ts";
import { explainSnapshot } from "./snapshot-rules.ts";

/** Reads what an object depends on, and explains the chain from the cause to the object. */
export class Explainer {
  readonly #cluster: Cluster;
  readonly #reader: FactReader;
  readonly #common: CommonFacts;

  constructor(cluster: Cluster, reader: FactReader, common: CommonFacts) {
    this.#cluster = cluster;
    this.#reader = reader;
    this.#common = common;
    if ("unknown" in common.controllers) reader.unknown.add(common.controllers.unknown);
  }

  async explain(kind: UserKindName, object: KubeObject): Promise<Explanation> {
    const explanation = await this.#withStorage(await this.#explain(kind, object), object);
    return withIgnored(explanation, ignoredReport(kind, object));
  }

  /** Where the store or a quota of its bytes is full, the user has to choose what to delete. */
  async #withStorage(explanation: Explanation, { metadata: { namespace } }: KubeObject): Promise<Explanation> {
    if (!isFreedByDeletion(explanation)) return explanation;
    const [checkpoints, snapshots, sandboxes] = await Promise.all([
      this.#reader.list(this.#cluster.checkpoints, { namespace }),
      this.#reader.list(this.#cluster.snapshots, { namespace }),
      this.#reader.list(this.#cluster.sandboxes, { namespace }),
    ]);
    return withStorage(explanation, new Storage(valueOf(checkpoints) ?? []), {
      snapshots: valueOf(snapshots),
      sandboxes: valueOf(sandboxes),
    });
  }

  async #explain(kind: UserKindName, object: KubeObject): Promise<Explanation> {
    switch (kind) {
      case "sandbox":
        return this.#sandbox(Sandbox.parse(object));
      case "checkpoint":
        return this.#checkpoint(Checkpoint.parse(object));
      case "set":
        return this.#set(SandboxSet.parse(object));
      case "claim":
        return this.#claim(SandboxClaim.parse(object));
      case "snapshot":
        return this.#snapshot(NamedSnapshot.parse(object));
      case "template":
        return explainTemplate(SandboxTemplate.parse(object));
      case "key":
        return explainKey(ApiKey.parse(object), this.#common.now);
    }
  }

  /** Two rounds of concurrent reads: what the names are known of, then the Pod's node. */
  async #sandbox(sandbox: Sandbox): Promise<Explanation> {
    const { client } = this.#cluster;
    const { name, namespace } = sandbox.metadata;
    const pods = client.resource(coreResources.pods, (value) => PodFacts.parse(value));
    const nodes = client.resource(coreResources.nodes, (value) => NodeFacts.parse(value));
    const [pod, events] = await Promise.all([
      this.#reader.find(pods, { namespace, name }),
      this.#reader.events(namespace, name),
    ]);
    const nodeName = valueOf(pod)?.spec.nodeName;
    const [node, nodeLease] = await Promise.all([
      this.#reader.find(nodes, { name: nodeName }),
      nodeName == null ? absent : this.#reader.lease(nodeName, "kube-node-lease"),
    ]);
    return explainSandbox({ ...this.#common, sandbox, pod, events, node, nodeLease });
  }

  async #checkpoint(checkpoint: Checkpoint): Promise<Explanation> {
    const { spec, metadata } = checkpoint;
    const name = spec.sandboxName ?? spec.podName ?? "";
    const isOver = isCloneable(checkpoint) || metadata.deletionTimestamp !== undefined;
    const hasNone = isOver || spec.volumeImport !== undefined;
    const source = hasNone ? undefined : await this.#sandboxNamed(metadata.namespace, name);
    return explainCheckpoint({ ...this.#common, checkpoint, source });
  }

  async #set(set: SandboxSet): Promise<Explanation> {
    const isFull = isConditionTrue(set.status?.conditions, "Ready");
    const member = isFull ? undefined : await this.#unavailableMember(set);
    return explainSet({ ...this.#common, set, member });
  }

  async #claim(claim: SandboxClaim): Promise<Explanation> {
    const { namespace } = claim.metadata;
    const { templateName: name } = claim.spec;
    const set = valueOf(await this.#reader.find(this.#cluster.sets, { namespace, name }));
    const cause = set && { object: `set/${name}`, explanation: await this.#set(set) };
    return explainClaim({ ...this.#common, claim, set: cause });
  }

  async #snapshot(snapshot: NamedSnapshot): Promise<Explanation> {
    return explainSnapshot({ ...this.#common, snapshot, awaited: await this.#awaitedBy(snapshot) });
  }

  /** A build waits for a sandbox or a checkpoint. */
  async #awaitedBy({ metadata, status }: NamedSnapshot): Promise<Cause | undefined> {
    const building = findCondition(status?.conditions, "Building");
    if (building?.status !== "True") return undefined;
    const { kind, name = "" } = status?.build?.waitsFor ?? {};
    if (kind === "Checkpoint") return this.#checkpointNamed(metadata.namespace, name);
    return kind === "Sandbox" ? this.#sandboxNamed(metadata.namespace, name) : undefined;
  }

  async #checkpointNamed(namespace: string, name: string): Promise<Cause | undefined> {
    const checkpoint = valueOf(await this.#reader.find(this.#cluster.checkpoints, { namespace, name }));
    return checkpoint && { object: `checkpoint/${name}`, explanation: await this.#checkpoint(checkpoint) };
  }

  async #sandboxNamed(namespace: string, name: string): Promise<Cause | undefined> {
    const sandbox = valueOf(await this.#reader.find(this.#cluster.sandboxes, { namespace, name }));
    return sandbox && this.#causeIn(sandbox);
  }

  /** The status names one that reports a problem. Otherwise it is one of the first that the API server lists, not of all. */
  async #unavailableMember(set: SandboxSet): Promise<Cause | undefined> {
    const { namespace, name } = set.metadata;
    const object = problemIn(set.status)?.object;
    const named = object?.kind === "Sandbox" ? object.name : undefined;
    const read = await this.#reader.read("sandboxes", async (signal) => {
      if (named !== undefined) return [await this.#cluster.sandboxes.find({ namespace, name: named }, { signal })];
      const labelSelector = `${labels.sandboxPool}=${name}`;
      const pages = this.#cluster.sandboxes.pages({ namespace, labelSelector, pageSize: mostMembers, signal });
      return (await pages.next()).value;
    });
    const waiting = (valueOf(read) ?? [])
      .filter((sandbox) => sandbox !== undefined)
      .filter((one) => controllerOf(one)?.uid === set.metadata.uid && !isConditionTrue(one.status?.conditions, "Ready"))
      .sort((a, b) => a.metadata.creationTimestamp.localeCompare(b.metadata.creationTimestamp));
    return waiting[0] && this.#causeIn(waiting[0]);
  }

  async #causeIn(sandbox: Sandbox): Promise<Cause> {
    return { object: `sandbox/${sandbox.metadata.name}`, explanation: await this.#sandbox(sandbox) };
  }
}

const mostMembers = 100;
