import struct from "google-protobuf/google/protobuf/struct_pb.js";
import type { Values } from "../handlers/handler.ts";

export type Struct = InstanceType<typeof struct.Struct>;

/** How Pulumi marks values on the wire (`sdk/nodejs/runtime/rpc.ts`). */
const signatureKey = "4dabf18193072939515e22adb298388d";
const secretSignature = "1b47061264138c4ac30d75fd1eb44270";

export interface Received {
  /** The values without marks, and without those that are null. */
  values: Values;
  /** The paths of the secrets: `recipe[0].copy.secret`. */
  secrets: string[];
}

/** Reads the values of a message. */
export function received(message: Struct | undefined): Received {
  const secrets: string[] = [];
  const values = unmarked(message?.toJavaScript() ?? {}, "", secrets) as Values;
  return { values, secrets };
}

function unmarked(value: unknown, path: string, secrets: string[]): unknown {
  if (Array.isArray(value)) return value.map((one, index) => unmarked(one, `${path}[${index}]`, secrets));
  if (typeof value !== "object" || value === null) return value;
  const marked = value as Values;
  if (marked[signatureKey] === secretSignature) {
    secrets.push(path);
    return unmarked(marked["value"], path, secrets);
  }
  return Object.fromEntries(
    Object.entries(marked)
      // SDKs add such properties to a resource. In a map, such as of variables, they are of the program.
      .filter(([key, inner]) => inner !== null && !(path === "" && key.startsWith("__")))
      .map(([key, inner]) => [key, unmarked(inner, joined(path, key), secrets)]),
  );
}

/** Appends a property to a path as Pulumi prints it. */
export function joined(path: string, key: string): string {
  const isPlain = /^[A-Za-z_$][\w$]*$/.test(key);
  if (!isPlain) return `${path}[${JSON.stringify(key)}]`;
  return path === "" ? key : `${path}.${key}`;
}

/** The property that a path begins with. */
export function topOf(path: string): string {
  return path.replace(/[.[].*$/s, "");
}

/** Makes a message of values. @param secrets the properties that are secrets, besides the secret files of a recipe */
export function sent(values: Values, secrets: ReadonlySet<string>): Struct {
  const marked = Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => {
      if (secrets.has(key)) return [key, secret(value)];
      return [key, key === "recipe" && Array.isArray(value) ? value.map(withSecretFile) : value];
    });
  const plain = JSON.parse(JSON.stringify(Object.fromEntries(marked))) as Parameters<
    typeof struct.Struct.fromJavaScript
  >[0];
  return struct.Struct.fromJavaScript(plain);
}

function secret(value: unknown): Values {
  return { [signatureKey]: secretSignature, value };
}

function withSecretFile(step: unknown): unknown {
  const { copy } = (step ?? {}) as { copy?: Values };
  if (copy?.["secret"] === undefined) return step;
  return { ...(step as Values), copy: { ...copy, secret: secret(copy["secret"]) } };
}
