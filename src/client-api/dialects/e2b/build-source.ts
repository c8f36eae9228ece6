import { namedSnapshotKind, type NamedSnapshot, type SnapshotSource } from "../../../api/kinds/named-snapshot.ts";
import { rametApiVersion } from "../../../api/schema/kind.ts";
import { RametError } from "../../../base/errors.ts";
import type { ClientBuild } from "../../../api/snapshot/client-builds.ts";
import { resized, sourceNamed, sourceOfImage } from "../../service/template-source.ts";
import type { Call, E2b } from "./call.ts";
import type { FromImageRegistry, StartBuild } from "./template-schemas.ts";

/**
 * What a client builds from.
 * @throws RametError `InvalidArgument`, `NotFound`; `NotSupported` with what to use instead
 */
export async function buildSource(
  { service, registrySecrets }: Pick<E2b, "service" | "registrySecrets">,
  { caller: { namespace }, signal, body }: Call<StartBuild>,
  { snapshot, build }: { snapshot: NamedSnapshot; build: ClientBuild },
): Promise<SnapshotSource> {
  const { fromImage, fromTemplate, fromImageRegistry } = body;
  const image = fromImage ?? "";
  const template = fromTemplate ?? "";
  if ((image === "") === (template === ""))
    throw new RametError("InvalidArgument", "The template must have exactly one of fromImage and fromTemplate");
  const login = fromImageRegistry ? loginOf(fromImageRegistry) : undefined;
  const { cpuCount, memoryMB } = build;
  const sizes = { cpuCount, memoryMB };
  // The SDKs' default image, which exists only at E2B.
  const isBase = /^e2bdev\/base(:latest)?$/.test(image);
  if (image !== "" && !isBase) {
    const { name, uid } = snapshot.metadata;
    const owner = { apiVersion: rametApiVersion, kind: namedSnapshotKind.kind, name, uid };
    const secret = login && (await registrySecrets.store({ namespace, image, ...login, owner, signal }));
    const pullSecret = secret === undefined ? undefined : { name: secret, owner };
    return sourceOfImage(service, namespace, { ...sizes, image, pullSecret }, signal);
  }
  if (login !== undefined)
    throw new RametError("InvalidArgument", "Credentials of a registry need the image of a registry in fromImage");
  const source = await sourceNamed(service, namespace, isBase ? "base" : template, signal);
  return isUnsized(sizes) ? source : resized(service, { namespace, source, sizes, signal });
}

/** The SDKs always send sizes. Their defaults mean those of the template. */
function isUnsized({ cpuCount, memoryMB }: Pick<ClientBuild, "cpuCount" | "memoryMB">): boolean {
  return (cpuCount === undefined || cpuCount === 2) && (memoryMB === undefined || memoryMB === 1024);
}

function loginOf({ type, username, password }: FromImageRegistry): { username: string; password: string } {
  if (type !== "registry") {
    const hint = hints[type];
    throw new RametError("NotSupported", `Credentials of the type ${type} are not supported`, hint ? { hint } : {});
  }
  if (username === undefined || password === undefined)
    throw new RametError("InvalidArgument", "fromImageRegistry has no username or no password");
  return { username, password };
}

/** Keys of a cloud would have to be exchanged for tokens that end after hours, and a sandbox of the template can start later. */
const hints: Partial<Record<string, string>> = {
  aws: "Use fromImage(image, { username: 'AWS', password: <output of aws ecr get-login-password> }), or let the nodes pull with their role: fromImage(image)",
  gcp: "Use fromImage(image, { username: '_json_key', password: <the service account's JSON> }), or let the nodes pull with their role: fromImage(image)",
};
