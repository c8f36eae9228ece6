import { Sandbox, sandboxKind, type SandboxManifest } from "../../../src/api/kinds/sandbox.ts";
import { parsePodTemplate, type PodTemplateSpec } from "../../../src/api/schema/pod-template.ts";
import { RametError } from "../../../src/base/errors.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { follow, InitFailed } from "../follow.ts";
import type { CheckResult, HandlerParts, ResourceHandler, Values } from "../handler.ts";
import { refOf, withCluster } from "../open-cluster.ts";
import { claimFor, declarerOf, explainRefusal } from "../owner.ts";
import { parseTimeSpan } from "../time-span.ts";
import { hasUnknown, judge } from "../validate.ts";
import { diffSandboxClone, manifestOf, SandboxCloneInputs } from "./inputs.ts";
import { keptTemplate } from "./kept-template.ts";
import { hasEnded, untilReady } from "./until-ready.ts";

/** Clones as resources of a program. */
export function sandboxCloneHandler(parts: HandlerParts): ResourceHandler {
  return {
    check: (_olds, news) => Promise.resolve(check(news)),
    diff: (_id, olds, news) => Promise.resolve(diffSandboxClone(olds, news)),
    create: async (values) => {
      const inputs = SandboxCloneInputs.parse(values);
      const id = `${inputs.namespace}/${inputs.name}`;
      return { id, outs: await apply(parts, inputs, id) };
    },
    update: async (id, olds, news) => ({
      outs: await apply(parts, SandboxCloneInputs.parse(news), id, SandboxCloneInputs.parse(olds)),
    }),
    read: (id, props) => read(parts, id, props),
    delete: (_id, props) => remove(parts, SandboxCloneInputs.parse(props)),
  };
}

function check(news: Values): CheckResult {
  const inputs = Object.fromEntries(Object.entries(news).filter(([, value]) => value !== null && value !== undefined));
  const failures = [
    ...judge(SandboxCloneInputs, inputs),
    ...validateSpan(inputs, "lifetime"),
    ...validateSpan(inputs, "timeout"),
  ];
  return { inputs, failures };
}

function validateSpan(inputs: Values, property: string): CheckResult["failures"] {
  const text = inputs[property];
  if (typeof text !== "string" || hasUnknown(text)) return [];
  try {
    parseTimeSpan(text, "it");
    return [];
  } catch (error) {
    return [{ property, reason: RametError.from(error).describe() }];
  }
}

/**
 * Makes the clone, and waits until it answers. A repeat finds what the first try did.
 * @param olds what the state holds of it
 */
async function apply(
  parts: HandlerParts,
  wished: SandboxCloneInputs,
  id: string,
  olds?: SandboxCloneInputs,
): Promise<Values> {
  return withCluster(parts, async (client) => {
    const sandboxes = sandboxesOf(client);
    const at = { namespace: wished.namespace, name: wished.name };
    const before = await sandboxes.find(at);
    const claim = claimFor(before, wished.owner, olds?.owner);
    // One that has ended keeps its name until it is removed.
    const living = before !== undefined && hasEnded(before) ? undefined : before;
    if (before !== undefined && living === undefined) await removeObject(sandboxes, before);
    const inputs = living === undefined || olds === undefined ? wished : { ...wished, ports: olds.ports };
    const declare = async (): Promise<Sandbox> => {
      const template = await templateOf(client, inputs, living);
      return declareWithEnd(inputs, { living, now: client.clock.now() }, (end) =>
        sandboxes.apply(manifestOf(inputs, { ...template, ...end }), claim),
      );
    };
    const from = await declare().catch((error: unknown) => {
      throw explainRefusal(error, "Sandbox", at);
    });
    const say = (line: string): void => {
      parts.say(`${inputs.name}: ${line}`);
    };
    try {
      const timeoutMilliseconds = parseTimeSpan(inputs.timeout, "timeout");
      return outputs(inputs, await untilReady({ sandboxes, from, timeoutMilliseconds, say }));
    } catch (error) {
      const last = await sandboxes.find(at).catch(() => undefined);
      throw new InitFailed(id, outputs(inputs, last), RametError.from(error));
    }
  });
}

function outputs(inputs: SandboxCloneInputs, found: Sandbox | undefined): Values {
  const { sandboxIp, ramet } = found?.status ?? {};
  const [port] = inputs.ports ?? [];
  return {
    ...inputs,
    ...(found?.spec.shutdownTime !== undefined && { shutdownTime: found.spec.shutdownTime }),
    ...(ramet?.restoredFrom !== undefined && { checkpointId: ramet.restoredFrom }),
    ...(sandboxIp !== undefined && { address: sandboxIp }),
    ...(sandboxIp !== undefined && port !== undefined && { url: `http://${host(sandboxIp)}:${port}` }),
  };
}

function host(address: string): string {
  return address.includes(":") ? `[${address}]` : address;
}

async function read(parts: HandlerParts, id: string, props: Values): ReturnType<ResourceHandler["read"]> {
  const [namespace, name = ""] = id.split("/");
  const found = await withCluster(parts, (client) => sandboxesOf(client).find({ namespace, name }));
  // One that has ended is of no use any more, and its name is needed for the next.
  if (found === undefined || hasEnded(found)) return { id: "", props: {} };
  return { id, props: outputs(seenLifetime(SandboxCloneInputs.parse(props), found), found) };
}

async function remove(parts: HandlerParts, { name, namespace, owner }: SandboxCloneInputs): Promise<void> {
  await withCluster(parts, async (client) => {
    const sandboxes = sandboxesOf(client);
    const found = await sandboxes.find({ namespace, name });
    if (found === undefined || declarerOf(found, owner) !== owner) return;
    await removeObject(sandboxes, found);
  });
}

async function removeObject(sandboxes: ResourceClient<Sandbox>, from: Sandbox): Promise<void> {
  const { metadata } = from;
  await sandboxes.delete(metadata, { uid: metadata.uid });
  await follow({
    resource: sandboxes,
    from,
    what: `the removal of the sandbox ${metadata.name}`,
    until: (seen) => seen === undefined,
    timeoutMilliseconds: removalMilliseconds,
  });
}

function sandboxesOf(client: KubeClient): ResourceClient<Sandbox> {
  return client.resource(refOf(sandboxKind), (value) => Sandbox.parse(value));
}

const removalMilliseconds = 120_000;

/**
 * What a clone says of its Pod template: its checkpoint's, with its ports. Without ports it says nothing, and the controller takes
 * that template itself.
 * @param living the clone, where it is there: it keeps what it was made with, as a resume would compare it with the checkpoint
 * @throws RametError `NotFound` or `CheckpointNotReady` when no template can be found to which the ports could be added
 */
async function templateOf(
  client: KubeClient,
  { namespace, from, template, ports = [] }: SandboxCloneInputs,
  living: Sandbox | undefined,
): Promise<Pick<SandboxManifest["spec"], "template" | "volumeClaimTemplates">> {
  if (ports.length === 0) return {};
  const spec = living?.spec ?? template ?? (await keptTemplate(client, namespace, from));
  const { volumeClaimTemplates } = spec as Sandbox["spec"];
  return {
    template: withPorts(parsePodTemplate(spec.template), ports),
    ...(volumeClaimTemplates !== undefined && { volumeClaimTemplates }),
  };
}

/** Only declared ports are reachable at the Pod's address; a restore does not compare them. */
function withPorts(template: PodTemplateSpec, ports: readonly number[]): PodTemplateSpec {
  const [main, ...others] = template.spec.containers;
  if (main === undefined) return template;
  const known = main.ports ?? [];
  const added = ports.filter((port) => !known.some(({ containerPort }) => containerPort === port));
  const all = [...known, ...added.map((containerPort) => ({ containerPort }))];
  return { ...template, spec: { ...template.spec, containers: [{ ...main, ports: all }, ...others] } };
}

/**
 * Declares a clone that ends a lifetime after the API server made it. That time is not known beforehand, and clocks differ: one that turns out to
 * end at another time is declared once more.
 * @param living the clone, where it is there
 */
export async function declareWithEnd(
  inputs: SandboxCloneInputs,
  { living, now }: { living: Sandbox | undefined; now: Date },
  declare: (end: { shutdownTime?: string }) => Promise<Sandbox>,
): Promise<Sandbox> {
  const expected = endOf(inputs, living?.metadata.creationTimestamp ?? now);
  const declared = await declare(expected);
  const exact = endOf(inputs, declared.metadata.creationTimestamp);
  return exact.shutdownTime === expected.shutdownTime ? declared : declare(exact);
}

/** When a clone that was made then is deleted, RFC 3339, as its object says it; one without a lifetime says nothing. */
function endOf({ lifetime }: SandboxCloneInputs, madeAt: Date | string): { shutdownTime?: string } {
  if (lifetime === undefined) return {};
  const ends = new Date(madeAt).getTime() + parseTimeSpan(lifetime, "lifetime");
  return { shutdownTime: new Date(ends).toISOString().replace(/\.\d+Z$/, "Z") };
}

/** With the lifetime that somebody else has given it since. Of one that is paused, the controller has moved the end. */
export function seenLifetime(inputs: SandboxCloneInputs, { metadata, spec }: Sandbox): SandboxCloneInputs {
  const { shutdownTime: declared } = endOf(inputs, metadata.creationTimestamp);
  const { shutdownTime: seen, paused } = spec;
  if (declared === undefined || declared === seen || paused === true) return inputs;
  const { lifetime: _, ...others } = inputs;
  if (seen === undefined) return others;
  const seconds = (Date.parse(seen) - Date.parse(metadata.creationTimestamp)) / 1000;
  return { ...others, lifetime: `${Math.max(1, seconds)} seconds` };
}
