import { ApiKey } from "../../api/kinds/api-key.ts";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import { problemIn } from "../../api/state/problem.ts";
import { findCondition, isConditionTrue } from "../../kube/conditions.ts";
import { controllerOf, type KubeObject } from "../../kube/object.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { ignoredReport } from "../object/ignored-fields.ts";
import type { UserKindName } from "../object/user-kind.ts";
import { explainCheckpoint } from "./checkpoint-rules.ts";
import { explainClaim } from "./claim-rules.ts";
import type { Explanation } from "./explanation.ts";
import { type Cause, type CommonFacts, type Read, valueOf } from "./facts.ts";
import { withIgnored, explainTemplate, explainKey } from "./other-kind-rules.ts";
import type { FactReader } from "./read.ts";
import { explainSandbox } from "./sandbox-rules.ts";
import { explainSet } from "./set-rules.ts";
import { explainSnapshot } from "./snapshot-rules.ts";

/** Reads what an object depends on, and explains the chain from the cause to the object. */
export class Explainer {
  readonly #cluster: Cluster;
  readonly #reader: FactReader;
  readonly #common: CommonFacts;
  /** Why facts are not known. */
  readonly unknown = new Set<string>();

  constructor(cluster: Cluster, reader: FactReader, common: CommonFacts) {
    this.#cluster = cluster;
    this.#reader = reader;
    this.#common = common;
    this.#note(common.controllers);
  }

  async explain(kind: UserKindName, object: KubeObject): Promise<Explanation> {
    return withIgnored(await this.#explain(kind, object), ignoredReport(kind, object));
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

  async #sandbox(sandbox: Sandbox): Promise<Explanation> {
    const facts = await this.#reader.sandbox(sandbox, this.#common);
    for (const fact of [facts.pod, facts.events, facts.node, facts.nodeLease]) this.#note(fact);
    return explainSandbox(facts);
  }

  async #checkpoint(checkpoint: Checkpoint): Promise<Explanation> {
    const { spec, metadata, status } = checkpoint;
    const name = spec.sandboxName ?? spec.podName ?? "";
    const isOver = status?.phase === "Succeeded" || metadata.deletionTimestamp !== undefined;
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
    const read = await this.#reader.read("sandboxsets", (signal) =>
      this.#cluster.sets.find({ namespace, name }, { signal }),
    );
    const set = this.#known(read);
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
    const read = await this.#reader.read("checkpoints", (signal) =>
      this.#cluster.checkpoints.find({ namespace, name }, { signal }),
    );
    const checkpoint = this.#known(read);
    return checkpoint && { object: `checkpoint/${name}`, explanation: await this.#checkpoint(checkpoint) };
  }

  async #sandboxNamed(namespace: string, name: string): Promise<Cause | undefined> {
    const read = await this.#reader.read("sandboxes", (signal) =>
      this.#cluster.sandboxes.find({ namespace, name }, { signal }),
    );
    const sandbox = this.#known(read);
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
    const waiting = (this.#known(read) ?? [])
      .filter((sandbox) => sandbox !== undefined)
      .filter((one) => controllerOf(one)?.uid === set.metadata.uid && !isConditionTrue(one.status?.conditions, "Ready"))
      .sort((a, b) => a.metadata.creationTimestamp.localeCompare(b.metadata.creationTimestamp));
    return waiting[0] && this.#causeIn(waiting[0]);
  }

  async #causeIn(sandbox: Sandbox): Promise<Cause> {
    return { object: `sandbox/${sandbox.metadata.name}`, explanation: await this.#sandbox(sandbox) };
  }

  #known<T>(read: Read<T>): T | undefined {
    this.#note(read);
    return valueOf(read);
  }

  #note(read: Read<unknown>): void {
    if ("unknown" in read) this.unknown.add(read.unknown);
  }
}

const mostMembers = 100;
